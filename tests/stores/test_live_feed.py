"""The feed of a real database, under load: every event once, and each timer in order."""

import asyncio

import pytest

from duetime import model
from duetime.clock import SystemClock
from duetime.events import store_feed
from duetime.events.hub import Hub
from duetime.events.store_feed import StoreFeed
from duetime.events.wish import Wish
from duetime.outbox import Outbox
from duetime.stores import Change, Insert, Store
from duetime.timer import Kind, Outcome
from tests.events.recording import Recording
from tests.factories import NODE, make_timer

pytestmark = [pytest.mark.slow, pytest.mark.promise("events-heard")]

OK = Outcome(kind=Kind.OK, status_code=200, latency_ms=1)
WRITERS = 4
ROUNDS = 12
AT_ONCE = 20


async def write(store: Store, clock: SystemClock) -> None:
    """Let timers live, each version dated when it begins."""
    is_slow = store.traits.drops_by_itself  # those with a transaction for each timer and its events
    for _ in range(2 if is_slow else ROUNDS):
        now = clock.now()
        timers = [make_timer(created_at=now) for _ in range(AT_ONCE)]
        await store.insert([Insert(timer) for timer in timers])
        for _ in range(3):
            claimed = [model.claim(timer, NODE, clock.now(), 10_000) for timer in timers]
            await store.apply(list(map(Change, timers, claimed)))
            timers = [model.release(timer, clock.now(), was_sent=False) for timer in claimed]
            await store.apply(list(map(Change, claimed, timers)))


async def test_under_load(store: Store, monkeypatch):
    """Rounds of many pages, read while others write."""
    recording = Recording(store)
    monkeypatch.setattr(store_feed, "PAGE", 100)
    monkeypatch.setattr(store_feed, "FEW", 500)
    clock, outbox = SystemClock(), Outbox(recording)
    hub = Hub(StoreFeed(outbox, clock, keep_for=3_600_000), clock)
    reader = await hub.listen(Wish("default"), None)
    writing = asyncio.gather(*(write(outbox, clock) for _ in range(WRITERS)))
    heard = []
    async with asyncio.timeout(120):
        while not writing.done() or len(heard) < len(recording.written):
            heard += [told.id for told in await reader.next(1.0)]
    await writing
    assert await reader.next(1.5) == []
    await hub.close()
    assert len(heard) == len(set(heard))
    assert set(heard) == {event.id for event in recording.written}
    order = {event.id: (event.timer, event.version) for event in recording.written}
    versions: dict[str, list[int]] = {}
    for id_ in heard:
        timer, version = order[id_]
        versions.setdefault(timer, []).append(version)
    assert all(each == sorted(each) for each in versions.values())
