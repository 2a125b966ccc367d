"""A timer that has failed and is awake still: somebody is to be told, so nothing may drop it."""

import pytest
from msgspec.structs import replace

from duetime import ids, model
from duetime.stores import Change, Insert, Query, Waking
from duetime.timer import HttpCallback, Kind, OnFailure, Outcome, Status
from tests.factories import NOW, claimed, insert, make_attempt, make_spec, make_timer

pytestmark = pytest.mark.promise("one-contract")

REFUSED = Outcome(kind=Kind.HTTP, status_code=404, error="HTTP 404")
TOLD = OnFailure(callback=HttpCallback(url="https://told.example/"))
LATER = NOW + 5_000


async def failed_in(store, **spec):
    """A timer that failed its only attempt, and whose failure nobody was told of yet."""
    timer = make_timer(spec=make_spec(on_failure=TOLD, tags=("t",), **spec), execute_at=NOW)
    await insert(store, timer)
    claim = claimed(timer)
    failed = model.finish(claim, REFUSED, NOW + 10, 0.5)
    attempt = make_attempt(claim, outcome=REFUSED)
    assert await store.apply([Change(timer, claim), Change(claim, failed, attempt)]) == [True] * 2
    assert (failed.status, failed.wake_at) == (Status.FAILED, NOW + 10)
    return failed


async def test_it_comes_up_until_it_is_told(store):
    """It is due like any other; once it sleeps, it is not, and is found as failed all along."""
    failed = await failed_in(store)
    line = Waking.of(failed)
    assert not line.is_claimed
    assert await store.due(ids.ALL_SHARDS, None, NOW + 9, 10) == []
    assert await store.due(ids.ALL_SHARDS, None, NOW + 10, 10) == [line]
    assert (await store.search(Query(tenant="default", status=Status.FAILED))).timers == [failed]
    told = model.tell(failed, LATER, "story")
    assert await store.apply([Change(failed, told)]) == [True]
    assert await store.due(ids.ALL_SHARDS, None, 2**50, 10) == []
    assert await store.get([failed.id]) == [told]
    assert (await store.search(Query(tenant="default", status=Status.FAILED))).timers == [told]


async def test_a_purge_leaves_it(store):
    """However old it is, it stays, with its log; once it sleeps, it goes like others."""
    failed = await failed_in(store)
    assert await store.purge(ids.ALL_SHARDS, NOW * 2, 10) == 0
    assert await store.get([failed.id]) == [failed]
    assert len(await store.attempts(failed.id, None, 10)) == 1
    told = model.tell(failed, LATER, "story")
    assert await store.apply([Change(failed, told)]) == [True]
    assert await store.purge(ids.ALL_SHARDS, LATER, 10) == 0
    assert await store.purge(ids.ALL_SHARDS, LATER + 1, 10) == 1
    assert await store.get([failed.id]) == [None]
    assert await store.attempts(failed.id, None, 10) == []


async def test_its_own_retention_begins_when_it_sleeps(keeping_store):
    """What it would have been dropped by does nothing before that."""
    store = keeping_store
    failed = await failed_in(store, retention=5_000)
    assert await store.drop_outlived(ids.ALL_SHARDS, NOW * 2, 10) == 0
    assert await store.purge(ids.ALL_SHARDS, NOW * 2, 10) == 0
    assert await store.get([failed.id]) == [failed]
    told = model.tell(failed, LATER, "story")
    assert await store.apply([Change(failed, told)]) == [True]
    assert await store.drop_outlived(ids.ALL_SHARDS, LATER + 4_999, 10) == 0
    assert await store.drop_outlived(ids.ALL_SHARDS, LATER + 5_000, 10) == 1
    assert await store.get([failed.id]) == [None]


async def test_a_copy_of_it_is_awake_too(keeping_store):
    """A timer that another store hands over is not dropped either, and comes up."""
    store = keeping_store
    failed = replace(await failed_in(store), id=ids.new_id(NOW, 3), timer_id="copy")
    assert await store.insert([Insert(failed)]) == [None]
    assert await store.purge(ids.ALL_SHARDS, NOW * 2, 10) == 0
    assert Waking.of(failed) in await store.due(ids.ALL_SHARDS, None, NOW * 2, 10)


async def test_who_was_first(store):
    """Who tells, and who redrives, are decided by the version; the other one loses."""
    told, redriven = [await failed_in(store) for _ in range(2)]
    assert await store.apply(
        [
            Change(told, model.tell(told, LATER, "story")),
            Change(told, model.redrive(told, LATER)),
            Change(redriven, model.redrive(redriven, LATER)),
            Change(redriven, model.tell(redriven, LATER, "story")),
        ]
    ) == [True, False, True, False]
    due = await store.due(ids.ALL_SHARDS, None, 2**50, 10)
    assert due == [Waking.of(model.redrive(redriven, LATER))]


async def test_it_can_be_removed(store):
    """Whoever deletes it takes it out of all that is due."""
    failed = await failed_in(store)
    assert await store.remove([failed]) == [True]
    assert await store.due(ids.ALL_SHARDS, None, 2**50, 10) == []
    assert await store.get([failed.id]) == [None]


async def test_a_redrive_is_found_by_its_new_time(store):
    """One whose deadline had passed is due now, and its time is now, in lists as well."""
    timer = make_timer(spec=make_spec(deadline=1_000), execute_at=NOW)
    await insert(store, timer)
    expired = model.expire(timer, LATER)
    redriven = model.redrive(expired, LATER + 1)
    assert await store.apply([Change(timer, expired), Change(expired, redriven)]) == [True] * 2
    assert await store.get([timer.id]) == [redriven]
    assert await store.due(ids.ALL_SHARDS, None, LATER + 1, 10) == [Waking.of(redriven)]


async def test_called_again(store):
    """An attempt whose receiver asked to be called again moves its timer, and is in its log."""
    timer = make_timer(execute_at=NOW)
    await insert(store, timer)
    claim = claimed(timer)
    asked = Outcome(kind=Kind.OK, status_code=200, again_at=LATER)
    again = model.finish(claim, asked, NOW + 10, 0.5)
    attempt = model.attempt_record(claim, again, asked, NOW + 10)
    assert await store.apply([Change(timer, claim), Change(claim, again, attempt)]) == [True] * 2
    assert await store.get([timer.id]) == [again]
    assert await store.due(ids.ALL_SHARDS, None, LATER, 10) == [Waking.of(again)]
    [logged] = await store.attempts(timer.id, None, 10)
    assert (logged, logged.next_at, logged.outcome.again_at) == (attempt, LATER, LATER)
