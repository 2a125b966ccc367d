"""An hour in the life of a node with very many timers: in the end, every account is settled."""

from collections import Counter
from random import Random

import pytest

from duetime.errors import IllegalTransition
from duetime.events.relay import Relay
from duetime.outbox import Outbox
from duetime.retry import RetryPolicy
from duetime.stores import Insert
from duetime.stores.sqlite.store import SqliteStore
from duetime.tenancy.caller import OPERATOR
from duetime.testing import FakeClock
from duetime.timer import HttpCallback, Kind, Outcome
from tests.engine.conftest import Node
from tests.events.conftest import Office, waiting
from tests.events.recording import Recording
from tests.factories import make_spec, make_timer

HOUR = 3_600_000
TICK = 60_000
RECEIVERS = 50
AT_ONCE = 1_000

OK = Outcome(kind=Kind.OK, status_code=200, latency_ms=1)
REFUSED = Outcome(kind=Kind.HTTP, status_code=404, error="HTTP 404", latency_ms=1)
TIMED_OUT = Outcome(kind=Kind.TIMEOUT, error="timed out", retryable=True)


class Counting(Recording):
    """A store that counts what was told, and keeps nothing of it."""

    def __init__(self, store) -> None:
        super().__init__(store)
        self.counts = Counter()

    async def insert(self, inserts):
        answers = await super().insert(inserts)
        self._count()
        return answers

    async def apply(self, changes):
        won = await super().apply(changes)
        self._count()
        return won

    def _count(self):
        self.counts.update(event.type for event in self.written)
        self.written.clear()


class Hour:
    """A node, its timers, and a clock that runs as fast as it can."""

    def __init__(self, store, stream) -> None:
        self.clock = FakeClock()
        self.dice = Random(8)
        self.store = Counting(store)
        self.node = Node(Outbox(self.store), self.clock)
        self.node.sender.send = self._send
        self.relay = Relay(self.node.store, stream, self.clock, tenure=Office())

    async def _send(self, timer, is_mine):
        assert is_mine()
        chance = self.dice.random()
        if chance < 0.9:
            return OK
        return REFUSED if chance < 0.93 else TIMED_OUT

    async def create(self, count: int) -> list[str]:
        """Make timers that are due at some time within the hour."""
        ids = []
        policy = RetryPolicy(max_attempts=3, initial_interval=2_000, jitter=0)
        callbacks = [HttpCallback(url=f"https://r{n}.example/hook") for n in range(RECEIVERS)]
        while count > 0:
            part = [
                make_timer(
                    created_at=self.clock.now(),
                    execute_at=self.clock.now() + self.dice.randrange(HOUR),
                    spec=make_spec(callback=self.dice.choice(callbacks), retry_policy=policy),
                )
                for _ in range(min(count, AT_ONCE))
            ]
            await self.node.store.insert([Insert(timer) for timer in part])
            ids += [timer.id for timer in part]
            count -= len(part)
        return ids

    async def cancel(self, ids: list[str]) -> None:
        """Change one's mind; some are too late for that."""
        for id_ in ids:
            try:
                await self.node.service.cancel(OPERATOR, id_)
            except IllegalTransition:
                continue

    async def tick(self) -> None:
        """Let some time pass, do all that is due, and publish what that was."""
        self.clock.advance(TICK)
        engine = self.node.engine
        await engine.members.step()
        await engine.reader.step()
        while self._is_due() or engine.targets.has_serveable():
            await self.node.dispatch()
            await self.node.commit()
            await engine.reader.step()
        await self.publish()

    async def publish(self) -> None:
        """Let the relay work off what there is, batch by batch."""
        while await self.relay.step() == 0:
            pass

    def _is_due(self) -> bool:
        next_at = self.node.engine.agenda.next_at()
        return next_at is not None and next_at <= self.clock.now()


@pytest.mark.slow
@pytest.mark.promise("events-complete", "events-arrive")
@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
async def test_an_hour(count, post, tmp_path):
    """The outbox is empty, and as many timers have ended as were made, by any account."""
    store = SqliteStore(tmp_path / "duetime.db", synchronous="off")
    await store.migrate()
    hour = Hour(store, post.stream)
    ids = await hour.create(count)
    doomed = hour.dice.sample(ids, count // 50)
    for number in range(HOUR // TICK + 10):
        if number % 6 == 3:
            await hour.cancel(doomed[number // 6 :: 10])
        await hour.tick()
    assert await waiting(store) == []
    counts = hour.store.counts
    statuses = {each.status: each.timers for each in await store.count("default")}
    assert counts["created"] == count
    assert counts["completed"] + counts["failed"] + counts["canceled"] == count
    assert statuses == {name: counts[name] for name in ("completed", "failed", "canceled")}
    assert min(statuses.values()) > count / 200
    assert count - counts["canceled"] <= counts["due"] <= count  # some are canceled as they retry
    assert counts["attempt_started"] == counts["completed"] + counts["attempt_failed"]
    told = (await post.theirs.stream_info(post.stream.name)).state
    assert told.messages == counts.total() == hour.relay.published
    await store.close()
