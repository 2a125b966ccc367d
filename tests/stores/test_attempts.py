"""The execution log of a timer."""

import pytest

from duetime.stores import Change
from duetime.timer import Kind, Outcome
from tests.factories import NOW, insert, make_attempt, make_timer, with_spec

pytestmark = pytest.mark.promise("one-contract")


async def log(store, timer, attempts):
    """Write attempts one after the other, each with a change of the timer."""
    for attempt in attempts:
        new = with_spec(timer)
        assert await store.apply([Change(timer, new, attempt)]) == [True]
        timer = new


async def test_the_log_is_in_order(store):
    """Attempts come by occurrence and number, whatever order they were written in."""
    timer = make_timer()
    await insert(store, timer)
    places = [(2, 1), (1, 10), (1, 2), (1, 1), (10, 1)]
    attempts = {
        place: make_attempt(timer, occurrence=place[0], attempt=place[1]) for place in places
    }
    await log(store, timer, attempts.values())
    assert await store.attempts(timer.id, None, 10) == [attempts[place] for place in sorted(places)]


async def test_paging_through_the_log(store):
    """The log goes on behind a place, and a page has at most the limit."""
    timer = make_timer()
    await insert(store, timer)
    attempts = [
        make_attempt(timer, occurrence=occurrence, attempt=attempt)
        for occurrence in (1, 2)
        for attempt in (1, 2, 3)
    ]
    await log(store, timer, attempts)
    assert await store.attempts(timer.id, None, 2) == attempts[:2]
    assert await store.attempts(timer.id, (1, 2), 2) == attempts[2:4]
    assert await store.attempts(timer.id, (2, 1), 9) == attempts[4:]
    assert await store.attempts(timer.id, (2, 3), 9) == []


async def test_every_field_of_an_attempt_comes_back(store):
    """What is read equals what was written, in every field."""
    timer = make_timer()
    await insert(store, timer)
    attempt = make_attempt(
        timer,
        node='nöde "1"]',
        next_at=NOW + 99,
        outcome=Outcome(
            kind=Kind.HTTP,
            status_code=503,
            latency_ms=12,
            error='the receiver answered 503: "[später]"',
            retryable=True,
            retry_at=NOW + 50,
            response="grüße\n\ufffd",
            response_headers={"x-request-id": 'ä "1"', "etag": ""},
        ),
    )
    await log(store, timer, [attempt])
    assert await store.attempts(timer.id, None, 1) == [attempt]


async def test_timers_have_logs_of_their_own(store):
    """A log holds only its timer's attempts, and an unknown timer's is empty."""
    one, two = make_timer(), make_timer()
    await insert(store, one, two)
    await log(store, one, [make_attempt(one)])
    assert await store.attempts(one.id, None, 9) == [make_attempt(one)]
    assert await store.attempts(two.id, None, 9) == []
    assert await store.attempts("unknown", None, 9) == []
