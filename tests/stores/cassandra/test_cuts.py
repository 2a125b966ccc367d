"""What a read cannot pass in one go, because too much of it is dead, it passes in parts.

The server of these tests fails a read that meets 1,000 dead cells, where others fail at 100,000.
"""

import uuid

import cassandra
import pytest

from duetime import ids, model
from duetime.stores import Change, Due, Insert, Query, Waking
from duetime.stores.cassandra import rounds, stretch
from duetime.stores.cassandra.rows import DUE
from duetime.timer import Status
from tests.factories import NOW, insert, make_event, make_timer
from tests.stores.cassandra.made import SHARD, at, fire
from tests.stores.conftest import scanned
from tests.waiting import eventually

DAY = 24 * 3600 * 1000


@pytest.fixture
def touchy_url(touchy_cassandra):
    """The URL of a keyspace that is not there yet."""
    return touchy_cassandra.url(f"test_{uuid.uuid4().hex}")


@pytest.fixture
async def store(touchy_url, open_store):
    return await open_store(touchy_url)


async def cancel(store, timers):
    changes = [Change(timer, model.cancel(timer, NOW)) for timer in timers]
    assert all(await store.apply(changes))


async def failures(store, monkeypatch):
    """A list that grows by each read of this store that fails."""
    session, failed = store._rooms.reads._session, []
    run = session.run

    async def watched(statement, values=()):
        try:
            return await run(statement, values)
        except cassandra.ReadFailure:
            failed.append(values)
            raise

    monkeypatch.setattr(session, "run", watched)
    return failed


@pytest.mark.slow
async def test_many_canceled_at_one_instant(store, touchy_url, open_store, monkeypatch):
    """What is left of a time for which most were canceled is found, in this shard and in others."""
    timers = sorted((at(NOW + 100) for _ in range(3_000)), key=lambda timer: timer.id)
    others = [make_timer(shard=SHARD + n, execute_at=NOW + 100) for n in (1, 2)]
    later = at(NOW + 200)
    await insert(store, *timers, *others, later)
    left = [timers[1_600], timers[-1]]
    await cancel(store, [timer for timer in timers if timer not in left])
    expected = sorted(Waking.of(timer) for timer in (*left, *others, later))
    new = await open_store(touchy_url)
    for each in (store, new):
        failed = await failures(each, monkeypatch)
        assert set(await each.due(ids.ALL_SHARDS, None, NOW + 1_000, 10)) <= set(expected)
        assert failed
        # From the beginning of time, and made in the same millisecond: that takes a second poll.
        assert await each.due(ids.ALL_SHARDS, None, NOW + 1_000, 10) == expected
        assert await each.due(ids.ALL_SHARDS, Due(NOW, ""), NOW + 1_000, 3) == expected[:3]
        failed.clear()
        for _ in range(3):
            assert await each.due(ids.ALL_SHARDS, None, NOW + 1_000, 10) == expected
        assert len(failed) <= 3  # at most one, of a cut that is tried to do without


@pytest.mark.slow
async def test_a_shard_that_takes_long_to_read_keeps_no_other_waiting(store, monkeypatch):
    """Its rest is left to the next poll, and found in the end; the others are read each time."""
    monkeypatch.setattr(stretch, "MOST_FAILURES", 2)
    await insert(store, *(timers := [at(NOW + 100) for _ in range(1_500)]))
    await cancel(store, timers[:-1])
    early, late = at(NOW - 500), timers[-1]
    others = [make_timer(shard=SHARD + n, execute_at=NOW + n) for n in range(1, 4)]
    await insert(store, early, *others)
    polls = []
    while not polls or late.id not in polls[-1]:
        assert len(polls) < 30
        polls.append({line.id for line in await store.due(ids.ALL_SHARDS, None, NOW + 200, 10)})
        assert polls[-1] >= {timer.id for timer in others}
    assert len(polls) > 1
    assert polls[-1] == {timer.id for timer in (early, late, *others)}


@pytest.mark.slow
async def test_a_line_that_stays_while_others_are_fired(store):
    """What cannot be sent holds the floor back; all that comes behind it is found all the same."""
    stuck = at(NOW)
    await insert(store, stuck)
    for now in range(NOW + 1_000, NOW + 10_000, 1_000):
        timers = [at(now + place) for place in range(200)]
        await insert(store, *timers)
        assert await store.due([SHARD], None, now + 1_000, 1_000) == [
            Waking.of(timer) for timer in (stuck, *timers)
        ]
        await fire(store, timers, now + 500)
    assert await store.due([SHARD], None, NOW + 20_000, 1_000) == [Waking.of(stuck)]
    assert await store.due([SHARD], Waking.of(stuck).place, NOW + 60_000, 1_000) == []


@pytest.mark.slow
async def test_the_head_rises_past_what_took_parts_to_read(store):
    """Once nothing is left there, no read begins before it, and its cuts are forgotten."""
    await insert(store, *(timers := [at(NOW + place % 7) for place in range(2_500)]))
    await cancel(store, timers)
    assert await store.due([SHARD], None, NOW + 100, 10) == []
    reads = store._rooms.reads
    assert reads._cuts[DUE].of(SHARD)
    last = at(NOW + 300_000)
    await insert(store, last)
    await fire(store, [last], NOW + 300_000)
    lane = store._rooms.lanes.known(SHARD)
    for _ in range(3):
        assert await store.due([SHARD], None, NOW + 300_000, 10) == []
        await lane.idle()
    assert reads._shards.head(SHARD).wake_at > NOW + 100_000
    assert await store.due([SHARD], None, NOW + 300_000, 10) == []
    assert not reads._cuts[DUE].of(SHARD)


@pytest.mark.slow
async def test_lists_and_scans_pass_what_has_expired(touchy_url, open_store, monkeypatch):
    """What is left among many finished timers whose time was over is listed, and can be copied."""
    store = await open_store(touchy_url, retention=1)
    ended = [
        make_timer(shard=SHARD, created_at=NOW + n, status=Status.COMPLETED, wake_at=None)
        for n in range(1_200)
    ]
    left = [make_timer(shard=SHARD, created_at=NOW + n) for n in (-5, 555, 1_100, 9_999)]
    elsewhere = make_timer(shard=SHARD + 1)
    await insert(store, *ended, *left, elsewhere)

    async def are_gone():
        return not any(await store.get([timer.id for timer in ended]))

    await eventually(are_gone, "the finished timers to end")
    failed = await failures(store, monkeypatch)
    assert await scanned(store, 100) == [*left, elsewhere]
    assert failed
    failed.clear()
    assert await scanned(store, 2) == [*left, elsewhere]
    assert len(failed) <= 4  # by cuts that are tried to do without
    listed = sorted([*left, elsewhere], key=lambda timer: timer.id)
    for limit in (2, 50):
        upwards = Query(tenant="default", descending=False, limit=limit)
        assert (await store.search(upwards)).timers == listed[:limit]
        downwards = Query(tenant="default", limit=limit)
        assert (await store.search(downwards)).timers == listed[::-1][:limit]


def ended(updated_at=NOW):
    return make_timer(
        shard=SHARD, status=Status.COMPLETED, wake_at=None, updated_at=updated_at, created_at=NOW
    )


async def purge_all(store, before, limit):
    counts = []
    while not counts or counts[-1]:
        counts.append(await store.purge(ids.ALL_SHARDS, before, limit))
    return sum(counts)


@pytest.mark.slow
async def test_a_purge_passes_what_it_dropped(store, touchy_url, open_store, monkeypatch):
    """However many finished timers are dropped, it goes on, and others find what is left too."""
    failed = await failures(store, monkeypatch)
    await insert(store, *(ended(NOW + n) for n in range(2_500)))
    assert await purge_all(store, NOW + 2_500, 200) == 2_500
    assert len(failed) < 40  # only as it began anew in the end, and not by each call
    other = await open_store(touchy_url)
    for updated_at in (NOW + 9_000, NOW + 5):
        await insert(other, ended(updated_at))
    assert await purge_all(other, NOW + 2_500, 10) == 1
    assert await purge_all(other, NOW + 10_000, 10) == 1
    failed.clear()
    for _ in range(3):
        assert await store.purge(ids.ALL_SHARDS, NOW + 10_000, 10) == 0
    assert not failed  # a long way is not gone again at once,
    await insert(other, ended(NOW + 7))
    assert await purge_all(store, NOW + 2 * rounds.RARELY, 10) == 0
    assert await purge_all(store, NOW + 2 * rounds.RARELY, 10) == 1  # but after an hour


@pytest.mark.slow
async def test_events_are_found_behind_many_that_were_told(store):
    """What was published is dead as well, and is passed by."""
    timer = at(NOW)
    told = [make_event(timer, at=NOW + n) for n in range(1_500)]
    left = make_event(timer, at=NOW + 2_000)
    await store.insert([Insert(timer, (*told, left))])
    await store.published([event.id for event in told])
    assert await store.events([SHARD], None, 10) == [left]
