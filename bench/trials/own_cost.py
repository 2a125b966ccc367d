"""What Duetime itself costs for a timer, in processor time: no socket, no disk, no other process.

Run by ``python -m bench.trials.own_cost``. The least of many rounds counts, so that the noise of a
machine does not: two versions of the program can be told apart by it where rates cannot.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from duetime.delivery import Mail
from duetime.engine import Engine
from duetime.requests import CreateTimer
from duetime.service import Service
from duetime.stores.memory import MemoryStore
from duetime.stores.sqlite.store import SqliteStore
from duetime.tenancy.caller import OPERATOR
from duetime.tenancy.rules import Rules
from duetime.testing import FakeClock, RecordingSender
from duetime.timer import Callback

ROUNDS = 40
IN_BATCH = 1_000
AT_ONCE = 200
DUE = 2_000

_decode = msgspec.json.Decoder(CreateTimer).decode


def bodies(count: int, delay: str) -> list[CreateTimer]:
    """Requests as they come in."""
    callback = {"type": "http", "url": "https://example.com/hook", "payload": {"text": "x" * 100}}
    text = json.dumps({"delay": delay, "callback": callback, "name": "n", "tags": ["a", "b"]})
    return [_decode(text.encode()) for _ in range(count)]


async def least(work: Callable[[], Awaitable[float]], rounds: int = ROUNDS) -> float:
    """The least that a round took, in microseconds a timer."""
    return min([await work() for _ in range(rounds)])


async def spent(call: Awaitable[object], count: int) -> float:
    """The processor time of a call, in microseconds a timer."""
    before = time.process_time()
    await call
    return (time.process_time() - before) / count * 1e6


async def creating(folder: str) -> tuple[float, float]:
    """In a batch, and one by one."""
    store = SqliteStore(f"{folder}/duetime.db", synchronous="off")
    await store.migrate()
    service = Service(store, RecordingSender(), FakeClock())

    async def batch() -> float:
        made = bodies(IN_BATCH, "1h")
        return await spent(
            service.create_many(OPERATOR, made, count=IN_BATCH, size=300_000), IN_BATCH
        )

    async def one_by_one() -> float:
        made = [service.create(OPERATOR, body) for body in bodies(AT_ONCE, "1h")]
        return await spent(asyncio.gather(*made), AT_ONCE)

    figures = await least(batch), await least(one_by_one)
    await service.close()
    await store.close()
    return figures


class PostingSender(RecordingSender):
    """Ends all that was posted in one turn of the loop in the next one."""

    def __init__(self) -> None:
        super().__init__()
        self._posted: list[Mail] = []

    def posts(self, _callback: Callback) -> bool:
        return True

    def post(self, mail: Mail) -> None:
        self.sent.extend(mail.timers)
        if not self._posted:
            asyncio.get_running_loop().call_soon(self._end)
        self._posted.append(mail)

    def _end(self) -> None:
        posted, self._posted = self._posted, []
        for mail in posted:
            mail.ended(mail.timers, self.answer)


async def fired(make_sender: type[RecordingSender]) -> float:
    """From the agenda to the row: taken, claimed, sent and written down."""
    clock, store, sender = FakeClock(), MemoryStore(), make_sender()
    rules = Rules(store, clock)
    engine = Engine("bench", store, sender, clock, target_concurrency=IN_BATCH, rules=rules)
    await engine.members.step()
    service = Service(store, sender, clock, engine=engine, rules=rules)
    await service.create_many(OPERATOR, bodies(DUE, "1s"), count=DUE, size=600_000)
    await service.close()
    await engine.reader.step()
    clock.advance(1_500)

    async def work() -> None:
        while len(sender.sent) < DUE or len(engine.committer):
            await engine.dispatcher.step()
            for _ in range(6):  # so that tasks begin and end
                await asyncio.sleep(0)
            clock.advance(25)
            await engine.committer.step()

    return await spent(work(), DUE)


async def main() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        batch, one = await creating(folder)
    print(f"created in batches of {IN_BATCH:,}: {batch:.1f} µs a timer, SQLite's work included")
    print(f"created one by one: {one:.1f} µs, the same")
    for how, sender in (("sent", RecordingSender), ("posted", PostingSender)):
        cost = await least(partial(fired, sender), 15)
        print(f"fired, {how} to nobody, on a store in memory: {cost:.1f} µs")


if __name__ == "__main__":
    asyncio.run(main())
