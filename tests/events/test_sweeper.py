"""Without NATS, events are kept for a while, for those who read them from the store."""

import pytest

from duetime.events import sweeper as sweepers
from duetime.events.sweeper import SHORTEST_BREATH, SWEEP_EVERY, Sweeper
from duetime.ids import ALL_SHARDS
from duetime.outbox import Outbox
from duetime.stores.memory import MemoryStore
from duetime.testing import FakeClock
from tests.events.conftest import waiting
from tests.events.lives import live

HOUR = 3_600_000


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def outbox():
    return Outbox(MemoryStore())


def sweeping(outbox, clock, shards=ALL_SHARDS):
    return Sweeper(outbox, clock, shards=lambda: shards, retention=HOUR)


async def test_old_events_are_dropped(outbox, clock):
    """Those that happened longer ago than they are kept, and no others."""
    sweeper = sweeping(outbox, clock)
    await live(outbox, now=clock.now())
    clock.advance(HOUR // 2)
    await live(outbox, now=clock.now())
    young = (await waiting(outbox))[4:]
    assert await sweeper.step() == SWEEP_EVERY
    assert len(await waiting(outbox)) == 8
    clock.advance(HOUR // 2 + 3)
    await sweeper.step()
    assert await waiting(outbox) == young


async def test_they_are_dropped_a_batch_at_a_time(outbox, clock, monkeypatch):
    """With a breath in between, and those of the own shards only."""
    monkeypatch.setattr(sweepers, "BATCH", 3)
    await live(outbox, now=clock.now(), shard=1)
    await live(outbox, now=clock.now(), shard=2)
    clock.advance(HOUR + 3)
    sweeper = sweeping(outbox, clock, {1})
    assert await sweeper.step() == SHORTEST_BREATH
    assert await sweeper.step() == SWEEP_EVERY
    assert [event.timer[15:18] for event in await waiting(outbox)] == ["002"] * 4
    assert await sweeping(outbox, clock, ()).step() == SWEEP_EVERY


@pytest.mark.parametrize(("took", "breath"), [(0, SHORTEST_BREATH), (50, 0.05), (900, 0.1)])
async def test_a_breath_is_as_long_as_a_batch_took(outbox, clock, monkeypatch, took, breath):
    """So that it keeps up with a node that is busy, and a slow store is not asked all the time."""
    monkeypatch.setattr(sweepers, "BATCH", 3)
    await live(outbox, now=clock.now())
    clock.advance(HOUR + 3)
    published = outbox.published

    async def slowly(ids):
        clock.advance(took)
        await published(ids)

    monkeypatch.setattr(outbox, "published", slowly)
    assert await sweeping(outbox, clock).step() == pytest.approx(breath)
