"""Timers that are removed: what is asked for that, what is left, and what a lost answer means."""

import pytest
from msgspec.structs import replace

from duetime.stores import Change
from duetime.stores.dynamodb.changes import MOST_ATTEMPTS
from duetime.stores.dynamodb.errors import Lost
from tests.factories import claim_of, claimed, insert, make_attempt, make_timer
from tests.stores.dynamodb.made import HEAVY, left, timer_of


async def nothing():
    pass


def lose_first(store, operation, meanwhile=nothing):
    """Do the first of these, and lose its answer; the next try comes after what happens then."""
    wire = store._calls._wire
    call = wire.call

    async def losing(asked, arguments, within):
        answer = await call(asked, arguments, within)
        if asked == operation:
            wire.call = call
            await meanwhile()
            raise Lost("no answer", was_sent=True)
        return answer

    wire.call = losing


async def test_nothing_is_left_of_a_timer(dynamodb, dynamodb_url):
    """Its place, its content and its log, in its item and beside it, go with it."""
    timer = timer_of(HEAVY, has_key=True)
    await insert(dynamodb, timer)
    for number in range(MOST_ATTEMPTS + 1):
        new = replace(timer, version=timer.version + 1)
        line = make_attempt(timer, attempt=number + 1)
        assert await dynamodb.apply([Change(timer, new, line)]) == [True]
        timer = new
    assert len(await left(dynamodb_url)) == 3 + MOST_ATTEMPTS
    assert await dynamodb.remove([timer]) == [True]
    assert await left(dynamodb_url) == []


async def test_what_many_cost(dynamodb, asked):
    """A write and a look for each, many at once; what lies beside them goes by the batch."""
    timers = [make_timer(shard=number % 3) for number in range(60)]
    await insert(dynamodb, *timers)
    asked.forget()
    assert await dynamodb.remove(timers) == [True] * 60
    counts = [asked.operations.count(name) for name in ("DeleteItem", "Query", "BatchWriteItem")]
    assert counts == [60, 60, 3]
    assert len(asked.operations) == 123


@pytest.mark.parametrize("has_key", [False, True])
async def test_an_answer_is_lost(dynamodb, dynamodb_url, has_key):
    """It is asked again, finds the timer gone, and that is what was wanted; once."""
    timer = timer_of(has_key=has_key)
    await insert(dynamodb, timer)
    lose_first(dynamodb, "DeleteItem")
    assert await dynamodb.remove([timer, timer]) == [True, False]
    assert await left(dynamodb_url) == []


async def test_an_answer_is_lost_and_the_key_is_anothers_since(dynamodb):
    """Who has the key by then stays, and the first one is gone, as was asked."""
    timer, other = (timer_of(has_key=True, timer_id="same") for _ in range(2))
    await insert(dynamodb, timer)
    lose_first(dynamodb, "DeleteItem", lambda: insert(dynamodb, other))
    assert await dynamodb.remove([timer]) == [True]
    assert await dynamodb.get([timer.id, other.id]) == [None, other]


async def test_an_answer_is_lost_to_who_was_too_late(dynamodb):
    """It was changed before: it stays, and so it is told."""
    timer = timer_of()
    await insert(dynamodb, timer)
    assert await dynamodb.apply([claim_of(timer)]) == [True]
    wire = dynamodb._calls._wire
    call = wire.call

    async def losing(asked, arguments, within):
        wire.call = call
        raise Lost("no answer", was_sent=True)

    wire.call = losing
    assert await dynamodb.remove([timer]) == [False]
    assert await dynamodb.get([timer.id]) == [claimed(timer)]
