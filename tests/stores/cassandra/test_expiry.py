"""Retention: finished timers end by themselves, with all that is theirs."""

import pytest
from msgspec import Raw
from msgspec.structs import replace

from duetime import ids, model
from duetime.stores import Change, Count, Insert, Query
from duetime.stores.cassandra import reads, writes
from duetime.stores.cassandra.rows import ATTEMPT, KEY, TRUTH
from duetime.timer import HttpCallback, Kind, OnFailure, Outcome, Progress, Status
from tests.factories import (
    NOW,
    claimed,
    completed,
    insert,
    key_of,
    make_attempt,
    make_event,
    make_spec,
    make_timer,
)
from tests.waiting import eventually

DAY = 24 * 3600 * 1000


def lifetimes(session, timer):
    """The seconds that the rows of a timer have left, by kind; None is for ever."""
    rows = session.execute(
        "SELECT kind, id, TTL(state), TTL(spec), TTL(timer), TTL(body) FROM timers "
        "WHERE shard = %s",
        [timer.shard],
    )
    return {
        kind: max(left, default=None)
        for kind, *left in (
            (kind, *(each for each in lives if each is not None)) for kind, _, *lives in rows
        )
    }


async def test_a_finished_timer_ends_with_all_that_is_its_own(cassandra_url, open_store, somebody):
    """Its row, its key and its log have a time to live; an event that was not told has none."""
    store = await open_store(cassandra_url, retention=DAY)
    timer = make_timer()
    await insert(store, timer)
    assert set(lifetimes(somebody, timer).values()) == {None}
    first = claimed(timer)
    failed = Outcome(kind=Kind.HTTP, status_code=500, retryable=True)
    again = replace(
        model.release(first, NOW, was_sent=True), progress=replace(first.progress, outcome=failed)
    )
    assert all(await store.apply([Change(timer, first), Change(first, again, make_attempt(first))]))
    second = claimed(again)
    done = model.finish(second, Outcome(kind=Kind.OK, status_code=200), NOW, 0.5)
    event = make_event(timer)
    changes = [Change(again, second), Change(second, done, make_attempt(second), (event,))]
    assert all(await store.apply(changes))
    assert await store.get([timer.id]) == [done]
    lives = lifetimes(somebody, timer)
    assert lives.keys() == {0, 1, 4, 5, 7}  # nothing is due, and nothing waits to be purged
    assert lives.pop(5) is None
    assert lives.pop(7) is None  # the shard's
    assert all(0 < left <= 24 * 3600 for left in lives.values())
    numbers = [attempt.attempt for attempt in await store.attempts(timer.id, None, 9)]
    assert numbers == [1, 2]
    rows = somebody.execute(
        "SELECT TTL(body) FROM timers WHERE shard = %s AND kind = 4", [timer.shard]
    )
    assert all(left for (left,) in rows)


async def test_a_timer_that_is_used_again_stays(cassandra_url, open_store, somebody):
    """Whoever gives a finished timer new content gives it a life without end."""
    store = await open_store(cassandra_url, retention=DAY)
    timer = make_timer()
    await insert(store, timer)
    done = completed(timer)
    assert await store.apply([Change(timer, claimed(timer)), Change(claimed(timer), done)]) == [
        True,
        True,
    ]
    new = model.replace(done, NOW, spec=make_spec(), execute_at=NOW + 9, fingerprint=None)
    assert await store.apply([Change(done, new)]) == [True]
    assert set(lifetimes(somebody, timer).values()) == {None}
    paused = model.pause(new, NOW)
    assert await store.apply([Change(new, paused)]) == [True]
    assert await store.get_by_key([key_of(timer)]) == [paused]


@pytest.mark.parametrize("usual", [None, DAY, 9 * DAY])
async def test_a_retention_of_its_own(cassandra_url, open_store, somebody, usual):
    """It is longer or shorter than the usual one, or there is no other; used again, it stays."""
    store = await open_store(cassandra_url, retention=usual)
    timer = make_timer(spec=make_spec(retention=3 * DAY))
    first = claimed(timer)
    again = model.release(first, NOW, was_sent=True)
    await insert(store, timer)
    assert all(await store.apply([Change(timer, first), Change(first, again, make_attempt(first))]))
    assert set(lifetimes(somebody, timer).values()) == {None}
    ended = model.cancel(again, NOW)
    assert await store.apply([Change(again, ended)]) == [True]
    lives = lifetimes(somebody, timer)
    assert lives.keys() == {0, 1, 4, 7}  # nothing waits to be purged
    assert lives.pop(7) is None
    assert all(2 * 24 * 3600 < left <= 3 * 24 * 3600 for left in lives.values())
    assert await store.purge(ids.ALL_SHARDS, NOW * 2, 9) == 0
    assert await store.drop_outlived(ids.ALL_SHARDS, NOW * 2, 9) == 0
    new = model.replace(ended, NOW, spec=timer.spec, execute_at=NOW + 9, fingerprint=None)
    assert await store.apply([Change(ended, new)]) == [True]
    lives = lifetimes(somebody, timer)
    assert (lives[0], lives[1]) == (None, None)


async def test_one_that_moves_in_with_a_retention_of_its_own(cassandra, somebody):
    """It ends by itself, with its log, though there is no other retention."""
    spec = make_spec(retention=DAY)
    timer = make_timer(status=Status.FAILED, wake_at=None, spec=spec)
    assert await cassandra.insert([Insert(timer, attempts=(make_attempt(timer),))]) == [None]
    lives = lifetimes(somebody, timer)
    assert lives.keys() == {0, 1, 4, 7}
    assert all(lives[kind] for kind in (0, 1, 4))


async def test_what_has_ended_is_gone_and_its_key_is_free(cassandra_url, open_store):
    """After its time, a timer is as if it had never been."""
    store = await open_store(cassandra_url, retention=1)  # a second, as short as it gets
    timer = make_timer(status=Status.COMPLETED, wake_at=None)
    await insert(store, timer)

    async def is_gone():
        return await store.get([timer.id]) == [None]

    await eventually(is_gone, "the timer to end")
    assert await store.get_by_key([key_of(timer)]) == [None]
    again = make_timer(timer_id=timer.timer_id)
    assert await store.insert([Insert(again)]) == [None]


async def test_what_ended_before_there_was_a_retention_is_purged(cassandra_url, open_store):
    """A retention that is set later holds for what has ended by then, too."""
    without = await open_store(cassandra_url)
    timer = make_timer(status=Status.COMPLETED, wake_at=None)
    await insert(without, timer)
    store = await open_store(cassandra_url, retention=DAY)
    assert await store.purge(ids.ALL_SHARDS, NOW + 1, 10) == 1
    assert await store.get([timer.id]) == [None]
    assert await store.purge(ids.ALL_SHARDS, NOW + 1, 10) == 0


async def test_a_timer_that_is_canceled_after_a_failure_takes_its_log_along(
    cassandra_url, open_store, somebody
):
    """Its first attempt was logged while it lived, and ends with it."""
    store = await open_store(cassandra_url, retention=DAY)
    timer = make_timer()
    await insert(store, timer)
    first = claimed(timer)
    again = model.release(first, NOW, was_sent=True)
    assert all(await store.apply([Change(timer, first), Change(first, again, make_attempt(first))]))
    assert await store.apply([Change(again, model.cancel(again, NOW))]) == [True]
    lives = lifetimes(somebody, timer)
    assert lives[4] is not None


def log_of(session, timer):
    """The lines of a timer's log: when each was written, and how long it has left."""
    rows = session.execute(
        "SELECT n, WRITETIME(body), TTL(body) FROM timers "
        "WHERE shard = %s AND kind = 4 AND at = 0 AND id = %s",
        [timer.shard, timer.id],
    )
    return {number: (written_at, left) for number, written_at, left in rows}


async def test_the_log_of_a_timer_that_is_used_again_is_not_written_again(
    cassandra_url, open_store, somebody, monkeypatch
):
    """Lines that have a time to live keep it, however often a key is used; new ones get theirs."""
    monkeypatch.setattr(reads, "_LIFETIMES_AT_ONCE", 2)  # so that there is more than a page
    store = await open_store(cassandra_url, retention=DAY)
    timer = make_timer()
    await insert(store, timer)
    known = {}
    for round_ in range(1, 6):
        first = claimed(timer)
        again = model.release(first, NOW, was_sent=True)
        second = claimed(again)
        done = model.finish(second, Outcome(kind=Kind.OK, status_code=200), NOW, 0.5)
        changes = [
            Change(timer, first),
            Change(first, again, make_attempt(first)),
            Change(again, second),
        ]
        assert all(await store.apply(changes))
        assert await store.apply([Change(second, done, make_attempt(second))]) == [True]
        log = log_of(somebody, timer)
        assert len(log) == 2 * round_
        assert all(left for _, left in log.values())
        assert {number: log[number][0] for number in known} == known
        known = {number: written_at for number, (written_at, _) in log.items()}
        timer = model.replace(done, NOW, spec=make_spec(), execute_at=NOW + 9, fingerprint=None)
        assert await store.apply([Change(done, timer)]) == [True]
    assert len(await store.attempts(timer.id, None, 99)) == 10


async def test_a_log_of_many_lines_gets_its_time_to_live_in_parts(
    cassandra_url, open_store, somebody, monkeypatch
):
    """From a time without a retention: the oldest lines first, and the others by the next end."""
    monkeypatch.setattr(reads, "_LIFETIMES_AT_ONCE", 3)
    monkeypatch.setattr(reads, "_LINES_AT_ONCE", 4)
    monkeypatch.setattr(writes, "_MOST_LINES", 7)
    store = await open_store(cassandra_url, retention=DAY)
    timer = replace(make_timer(), progress=Progress(attempt=10))
    log = tuple(make_attempt(timer, attempt=number) for number in range(1, 11))
    assert await store.insert([Insert(timer, attempts=log)]) == [None]
    ended = model.cancel(timer, NOW)
    assert await store.apply([Change(timer, ended)]) == [True]
    assert [left is not None for _, left in log_of(somebody, timer).values()] == [
        number <= 7 for number in range(1, 11)
    ]
    new = model.replace(ended, NOW, spec=make_spec(), execute_at=NOW + 9, fingerprint=None)
    assert all(await store.apply([Change(ended, new), Change(new, model.cancel(new, NOW))]))
    assert all(left for _, left in log_of(somebody, timer).values())
    assert await store.attempts(timer.id, None, 99) == list(log)


@pytest.mark.slow
async def test_a_long_log_is_purged_with_its_timer(cassandra_url, open_store, somebody):
    """However many attempts there were, nothing is left behind, and another's log stays."""
    store = await open_store(cassandra_url)
    ended, other = (
        make_timer(status=Status.COMPLETED, wake_at=None, updated_at=at, shard=3)
        for at in (NOW, NOW + 2)
    )
    log = tuple(make_attempt(ended, attempt=number) for number in range(1, 10_201))
    kept = (make_attempt(other),)
    inserts = [Insert(ended, attempts=log), Insert(other, attempts=kept)]
    assert await store.insert(inserts) == [None, None]
    assert len(log_of(somebody, ended)) == len(log)
    assert await store.purge(ids.ALL_SHARDS, NOW + 1, 10) == 1
    assert log_of(somebody, ended) == {}
    assert await store.attempts(other.id, None, 9) == list(kept)


async def test_a_purge_does_not_read_what_timers_carry(cassandra_url, open_store, statements_of):
    """It needs to know that they ended, and their keys; a thousand of them may have gigabytes.

    Nor does a count.
    """
    store = await open_store(cassandra_url)
    timers = [make_timer(status=Status.COMPLETED, wake_at=None) for _ in range(3)]
    await insert(store, *timers)
    asked = statements_of(store)
    assert await store.count("default") == [Count("default", Status.COMPLETED, 3)]
    assert await store.purge(ids.ALL_SHARDS, NOW + 1, 10) == 3
    assert asked
    assert not [statement for statement in asked if "spec" in statement or "heavy" in statement]


@pytest.mark.parametrize("limit", [2, 10])
async def test_what_ends_while_it_is_listed_does_not_end_the_list(cassandra, monkeypatch, limit):
    """Heavy timers are read after they were found. If these are gone by then, others are not."""
    callback = HttpCallback(url="https://example.com", payload=Raw(b'"%s"' % (b"x" * 40_000)))
    timers = [make_timer(shard=7, spec=make_spec(callback=callback)) for _ in range(8)]
    timers.sort(key=lambda timer: timer.id)
    await insert(cassandra, *timers)
    get = cassandra._rooms.reads.get
    gone = {timer.id for timer in timers[:6]}

    async def get_those_left(wanted):
        return [None if timer and timer.id in gone else timer for timer in await get(wanted)]

    monkeypatch.setattr(cassandra._rooms.reads, "get", get_those_left)
    assert await cassandra.scan(None, limit) == timers[6:]
    page = await cassandra.search(Query(tenant="default", descending=False, limit=limit))
    assert page.timers == timers[6:]


async def test_a_failure_that_is_still_to_be_told_does_not_end(cassandra_url, open_store, somebody):
    """Its rows have no time to live, with its log; they get one when it sleeps."""
    store = await open_store(cassandra_url, retention=DAY)
    told = OnFailure(callback=HttpCallback(url="https://told.example/"))
    timer = make_timer(spec=make_spec(on_failure=told))
    await insert(store, timer)
    claim = claimed(timer)
    failed = model.finish(claim, Outcome(kind=Kind.HTTP, status_code=404), NOW, 0.5)
    changes = [Change(timer, claim), Change(claim, failed, make_attempt(claim))]
    assert all(await store.apply(changes))
    assert set(lifetimes(somebody, timer).values()) == {None}
    asleep = model.tell(failed, NOW + 1, "story")
    assert await store.apply([Change(failed, asleep)]) == [True]
    assert await store.get([timer.id]) == [asleep]
    lives = lifetimes(somebody, timer)
    assert {lives[kind] for kind in (TRUTH, KEY, ATTEMPT)} == {DAY // 1000}
