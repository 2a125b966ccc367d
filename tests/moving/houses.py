"""Houses to move from and into: what is in them, and somebody who looks on."""

import asyncio

from msgspec import Raw
from msgspec.structs import replace

from duetime.model import HttpCallback, Status
from duetime.moving.copying import Copy
from duetime.stores import Insert, Record
from tests.factories import NOW, claimed, make_attempt, make_event, make_spec, make_timer

LAYOUT = Record(kind="layout", name="timers", version=3, data=b'{"num_shards": 64}')
_FINAL = {Status.PAUSED, Status.FAILED, Status.COMPLETED, Status.CANCELED}


class Listening:
    """Keeps what it is told."""

    def __init__(self):
        self.said = []
        self.shown = []

    def at(self, task, timers):
        self.shown.append((task, timers))

    def say(self, sentence):
        self.said.append(sentence)


class Breaking:
    """A target whose power goes after so many inserts."""

    def __init__(self, store, after):
        self.store = store
        self.left = after

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def insert(self, inserts):
        if self.left == 0:
            raise RuntimeError("the power is gone")
        self.left -= 1
        return await self.store.insert(inserts)


def furniture(count):
    """Timers in every status, with attempts, and with events that were not told yet."""
    return [_insert(number) for number in range(count)]


def _insert(number):
    callback = HttpCallback(
        url="https://example.com/hook",
        headers={"b": "1", "a": str(number)},
        payload=Raw(b'{ "n": %d }' % number),
    )
    spec = make_spec(callback=callback, name=f"näme {number}", tags=("x", f"tag-{number % 7}"))
    timer = make_timer(
        tenant=f"t{number % 3}", group=f"g{number % 2}", spec=spec, created_at=NOW + number
    )
    status = list(Status)[number % len(Status)]
    if status is Status.PENDING:
        return Insert(timer, (make_event(timer),) if number % 5 == 0 else ())
    timer = claimed(timer)
    if status is not Status.EXECUTING:
        wake_at = None if status in _FINAL else timer.wake_at
        timer = replace(timer, status=status, wake_at=wake_at, version=2 + number % 9)
    return Insert(timer, attempts=log_of(timer, number % 4))


def log_of(timer, length):
    return tuple(make_attempt(timer, attempt=n, node=f"node-{n}") for n in range(1, length + 1))


async def furnished(store, count=100):
    """Fill a store, and answer with what it holds."""
    inserts = furniture(count)
    assert await store.insert(inserts) == [None] * count
    assert await store.put_record(None, LAYOUT)
    return inserts


async def copied(source, target, clock, onlooker=None, name="here"):
    """Copy, while time passes whenever somebody waits for it."""
    copy = Copy(source, target, clock, onlooker or Listening(), name=name)
    return await passing(clock, copy.run())


async def passing(clock, work, meanwhile=None):
    """Let time pass until some work is done; each tenth of a second something may happen."""
    task = asyncio.ensure_future(work)
    while not task.done():
        for _ in range(20):
            await asyncio.sleep(0)
        if meanwhile and not task.done():
            await meanwhile()
        clock.advance(100)
    return task.result()


async def holdings(store):
    """All that a store holds, but for what nodes and copies note down: for comparing."""
    timers, after = [], None
    while part := await store.scan(after, 200):
        timers += part
        after = part[-1].id
    logs = {timer.id: await store.attempts(timer.id, None, 10_000) for timer in timers}
    events = await store.events(range(4096), None, 10_000)
    return sorted(timers, key=lambda timer: timer.id), logs, events, await store.records("layout")
