"""With a retention, DynamoDB drops finished timers by itself."""

import pytest
from msgspec.structs import replace

from duetime import ids, model
from duetime.stores import Change, Insert, Query
from duetime.stores.dynamodb import items
from duetime.stores.dynamodb.errors import Refused
from duetime.timer import HttpCallback, OnFailure, Status
from tests.factories import NOW, insert, key_of, make_attempt, make_timer
from tests.servers.dynamodb import ask
from tests.stores.dynamodb.conftest import RETENTION
from tests.stores.dynamodb.made import HEAVY, everything, expiries, fired, timer_of
from tests.stores.dynamodb.sweeping import swept

DROPPED_AT = (NOW + 50 + RETENTION) // 1000 + 1
LATER = DROPPED_AT + 7 * 86_400  # what lies beside the timer


async def test_a_finished_timer_is_dropped_with_all_that_is_its_own(dropping, dynamodb_url):
    """The timer, where its id lies, and its content: all are told when to go, none before."""
    timer = timer_of(HEAVY, has_key=True)
    await insert(dropping, timer)
    assert await expiries(dynamodb_url) == [None] * 3
    done = await fired(dropping, timer)
    assert await expiries(dynamodb_url) == [DROPPED_AT, LATER, LATER]
    assert await dropping.get([timer.id]) == [done]
    assert await dropping.purge(ids.ALL_SHARDS, NOW * 2, 9) == 0
    assert dropping.traits.drops_by_itself


async def test_a_timer_that_comes_back_to_life_stays(dropping, dynamodb_url):
    """A key that is used again loses nothing of what it needs."""
    timer = timer_of(HEAVY, has_key=True)
    await insert(dropping, timer)
    done = await fired(dropping, timer)
    again = model.replace(done, NOW, spec=done.spec, execute_at=NOW, fingerprint=None)
    assert await dropping.apply([Change(done, again)]) == [True]
    assert await expiries(dynamodb_url) == [None] * 3
    assert await dropping.get([timer.id]) == [again]


async def test_a_late_word_takes_nothing_from_the_living(dropping, dynamodb_url):
    """What says of an older version that it has ended does nothing any more."""
    timer = timer_of(HEAVY, has_key=True)
    await insert(dropping, timer)
    done = await fired(dropping, timer)
    again = model.replace(done, NOW, spec=done.spec, execute_at=NOW, fingerprint=None)
    assert await dropping.apply([Change(done, again)]) == [True]
    await dropping._changes._expiry.end([done])
    assert await expiries(dynamodb_url) == [None] * 3


async def test_without_a_retention_nothing_is_dropped(dynamodb, dynamodb_url):
    """No item says when to go."""
    timer = timer_of(HEAVY, has_key=True)
    await insert(dynamodb, timer)
    await fired(dynamodb, timer)
    assert await expiries(dynamodb_url) == [None] * 3
    assert dynamodb.traits.drops_by_itself  # for others may have one: a copy must reckon with it


async def test_a_finished_timer_that_moves_in_is_dropped_too(dropping, dynamodb_url):
    """One that comes from another store, finished, has not much longer to live."""
    timer = make_timer(status=Status.CANCELED, wake_at=None)
    await insert(dropping, replace(timer, updated_at=NOW + 50))
    assert await expiries(dynamodb_url) == [DROPPED_AT, LATER]


async def test_a_timer_that_was_half_dropped_is_gone(dropping, dynamodb_url):
    """A finished timer whose content went first is in nobody's way, in no list and under no key."""
    timer, other = timer_of(HEAVY, has_key=True), timer_of()
    await insert(dropping, timer, other)
    await fired(dropping, timer)
    [part] = [item for item in await everything(dynamodb_url) if item["pk"]["S"] == timer.id]
    await ask(dynamodb_url, "DeleteItem", Key={name: part[name] for name in ("pk", "sk")})
    assert await dropping.get([timer.id]) == [None]
    assert await dropping.get_by_key([key_of(timer)]) == [None]
    assert (await dropping.search(Query(tenant="default"))).timers == [other]
    again = timer_of(HEAVY, has_key=True, timer_id=timer.timer_id)
    await insert(dropping, again)
    assert await dropping.get_by_key([key_of(again)]) == [again]


async def test_a_timer_that_finished_under_a_retention_comes_back_without_one(
    dropping, dynamodb, dynamodb_url
):
    """What lies beside it was told to go, and is kept, although nothing is dropped any more."""
    timer = timer_of(HEAVY, has_key=True)
    await insert(dropping, timer)
    done = await fired(dropping, timer)
    again = model.replace(done, NOW, spec=done.spec, execute_at=NOW, fingerprint=None)
    assert await dynamodb.apply([Change(done, again)]) == [True]
    assert await expiries(dynamodb_url) == [None] * 3


async def time_to_live(url):
    said = await ask(url, "DescribeTimeToLive")
    return said["TimeToLiveDescription"]["TimeToLiveStatus"]


def with_retention(timer, retention):
    return replace(timer, spec=replace(timer.spec, retention=retention))


@pytest.mark.parametrize("own", [RETENTION // 2, RETENTION * 2])
async def test_a_retention_of_its_own_is_longer_or_shorter(dropping, dynamodb_url, own):
    """The timer and what lies beside it go by their own; come back to life, they stay."""
    timer = with_retention(timer_of(HEAVY, has_key=True), own)
    await insert(dropping, timer)
    assert await expiries(dynamodb_url) == [None] * 3
    done = await fired(dropping, timer)
    at = (NOW + 50 + own) // 1000 + 1
    assert await expiries(dynamodb_url) == [at, at + 7 * 86_400, at + 7 * 86_400]
    assert await dropping.drop_outlived(ids.ALL_SHARDS, NOW * 2, 9) == 0
    spec = with_retention(done, None).spec
    again = model.replace(done, NOW, spec=spec, execute_at=NOW, fingerprint=None)
    assert await dropping.apply([Change(done, again)]) == [True]
    assert await expiries(dynamodb_url) == [None] * 3
    await fired(dropping, again)  # which has no retention of its own any more
    assert await expiries(dynamodb_url) == [DROPPED_AT, LATER, LATER]


async def test_a_retention_of_its_own_needs_no_other(dynamodb, dynamodb_url):
    """It is dated, and the table drops from then on; a purge leaves it alone."""
    timer, usual = with_retention(timer_of(), RETENTION), timer_of()
    await insert(dynamodb, timer, usual)
    await fired(dynamodb, usual)
    assert await time_to_live(dynamodb_url) == "DISABLED"
    done = await fired(dynamodb, timer)
    assert await time_to_live(dynamodb_url) == "ENABLED"
    assert await expiries(dynamodb_url) == [DROPPED_AT, None]
    assert await dynamodb.purge(ids.ALL_SHARDS, NOW * 2, 9) == 1
    assert await dynamodb.get([timer.id]) == [done]


async def test_one_that_moves_in_with_a_retention_of_its_own(dynamodb, dynamodb_url):
    """It is dated too, and its log, though there is no other retention."""
    timer = timer_of(status=Status.FAILED, wake_at=None, updated_at=NOW + 50)
    timer = with_retention(timer, RETENTION)
    line = make_attempt(timer, finished_at=NOW + 50)
    assert await dynamodb.insert([Insert(timer, attempts=(line,))]) == [None]
    assert await expiries(dynamodb_url) == [DROPPED_AT, LATER]
    assert await time_to_live(dynamodb_url) == "ENABLED"


async def test_who_may_not_turn_the_time_to_live_on_finishes_all_the_same(dynamodb, dynamodb_url):
    """The timer is dated, and goes when somebody else has; it is not tried again and again."""
    asked = []

    async def refuse(operation, **_):
        asked.append(operation)
        if operation == "UpdateTimeToLive":
            raise Refused("AccessDeniedException", "no", {})
        return {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}

    dynamodb._table._call = refuse
    for _ in range(2):
        timer = with_retention(timer_of(), RETENTION)
        await insert(dynamodb, timer)
        await fired(dynamodb, timer)
    assert await expiries(dynamodb_url) == [DROPPED_AT] * 2
    assert asked == ["DescribeTimeToLive", "UpdateTimeToLive"]


@pytest.mark.parametrize("gone", [1, 2, 3, 7])
async def test_a_timer_behind_those_that_were_dropped_is_found(dynamodb, dynamodb_url, gone):
    """The places of their ids stay a week longer, and are passed over, however many there are."""
    dropped = [timer_of(has_key=True, created_at=NOW + place) for place in range(gone)]
    left = timer_of(has_key=True, created_at=NOW + gone)
    await insert(dynamodb, *dropped, left)
    for item in await everything(dynamodb_url):
        if item.get("i", {}).get("S") in {timer.id for timer in dropped}:
            await ask(dynamodb_url, "DeleteItem", Key={"pk": item["pk"], "sk": item["sk"]})
    for limit in (1, 2, 3):
        assert await dynamodb.scan(None, limit) == [left]
    page = await dynamodb.search(Query(tenant="default", limit=1, descending=False))
    assert page.timers == [left]


async def test_who_has_the_key_since_is_not_dropped_with_the_one_before(dynamodb, dynamodb_url):
    """A timer is dropped by its mark, which is nobody else's, and not by its version."""
    old = timer_of(has_key=True)
    await insert(dynamodb, old)
    [item] = [item for item in await everything(dynamodb_url) if items.is_timer(item)]
    stale = {**item, "m": {"S": "of another timer"}}
    assert not await dynamodb._removals.drop(stale)
    assert await dynamodb.get([old.id]) == [old]


async def test_a_failure_that_is_still_to_be_told_is_not_dropped(dropping, dynamodb_url):
    """Nothing of it says when to go, also if a sweep comes by, until it sleeps."""
    told = OnFailure(callback=HttpCallback(url="https://told.example/"))
    timer = timer_of(HEAVY, has_key=True)
    timer = replace(timer, spec=replace(timer.spec, on_failure=told))
    await insert(dropping, timer)
    failed = model.expire(timer, NOW)
    assert await dropping.apply([Change(timer, failed)]) == [True]
    assert await expiries(dynamodb_url) == [None] * 3
    await swept(dropping)
    assert await expiries(dynamodb_url) == [None] * 3
    asleep = model.tell(failed, NOW + 50, "story")
    assert await dropping.apply([Change(failed, asleep)]) == [True]
    assert await expiries(dynamodb_url) == [DROPPED_AT, LATER, LATER]
    assert await dropping.get([timer.id]) == [asleep]
