"""With a retention, DynamoDB drops finished timers by itself."""

import pytest
from msgspec.structs import replace

from duetime import ids, model
from duetime.stores import Change, Query
from duetime.stores.dynamodb import items
from duetime.stores.dynamodb.expiry import Expiry
from tests.factories import NOW, insert, key_of, make_timer
from tests.servers.dynamodb import ask
from tests.stores.dynamodb.conftest import RETENTION
from tests.stores.dynamodb.made import HEAVY, everything, expiries, fired, timer_of

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
    await Expiry(dropping._calls, RETENTION, 4).end([done])
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
    timer = make_timer(status=model.Status.CANCELED, wake_at=None)
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
    assert not await dynamodb._walks._drop(stale)
    assert await dynamodb.get([old.id]) == [old]
