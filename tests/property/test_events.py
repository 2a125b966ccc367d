"""Whatever happens to timers, on nodes whose clocks disagree: their events are in order."""

import asyncio
from collections.abc import Callable
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from duetime import model
from duetime.ids import ALL_SHARDS
from duetime.outbox import Outbox
from duetime.retry import RetryPolicy
from duetime.stores import Change, Insert
from duetime.stores.memory import MemoryStore
from duetime.timer import Event, Kind, OnFailure, Outcome, Timer
from duetime.transitions import TRANSITIONS
from tests.factories import NOW, make_spec, make_timer

OK = Outcome(kind=Kind.OK, status_code=200)
REFUSED = Outcome(kind=Kind.HTTP, status_code=404, error="HTTP 404")
TIMED_OUT = Outcome(kind=Kind.TIMEOUT, error="timed out", retryable=True)

ACTIONS: dict[str, Callable[[Timer, int], Timer]] = {
    "claim": lambda timer, now: model.claim(timer, "node", now, 10_000),
    "expire": model.expire,
    "hold": model.hold,
    "let go": model.let_go,
    "skip": model.skip,
    "renew": lambda timer, now: model.renew(timer, now, 10_000),
    "finish": lambda timer, now: model.finish(
        timer, (OK, REFUSED, TIMED_OUT, replace(OK, again_at=now + 9))[now % 4], now, 0.5
    ),
    "release": lambda timer, now: model.release(timer, now, was_sent=now % 2 == 0),
    "take up": lambda timer, now: model.take_up(timer, "other", now, 10_000),
    "update": lambda timer, now: model.update(
        timer, now, spec=replace(timer.spec, name=str(now)), execute_at=now + now % 3
    ),
    "shift": lambda timer, now: model.shift(timer, now, now % 100 - 50),
    "replace": lambda timer, now: model.replace(
        timer, now, spec=replace(timer.spec), execute_at=now, fingerprint=str(now)
    ),
    "cancel": model.cancel,
    "pause": model.pause,
    "resume": model.resume,
    "fire": model.fire,
    "redrive": model.redrive,
    "tell": lambda timer, now: model.tell(timer, now, None),
}

steps = st.lists(
    st.tuples(
        st.integers(0, 1),  # which node
        st.integers(0, 2),  # which timer
        st.integers(0, 20),  # which of the actions that its status allows
        st.integers(-3, 5),  # by how much the node's clock has moved
        st.booleans(),  # by a copy that was read earlier
    ),
    max_size=60,
)


def test_every_action_is_tried():
    """The table of this test has every action of the model's."""
    assert set(ACTIONS) == set(TRANSITIONS)


@pytest.mark.promise("events-complete")
@given(steps, st.integers(-100_000, 100_000))
def test_events_are_in_the_order_of_versions(history, ahead):
    """By their ids, the events of a timer are in the order of its versions, which have no gap."""
    timers, events = asyncio.run(_lived_through(history, ahead))
    assert [event.id for event in events] == sorted({event.id for event in events})
    for timer in timers:
        mine = [event for event in events if event.timer == timer.id]
        versions = [version for version, _ in groupby(event.version for event in mine)]
        assert versions == list(range(1, timer.version + 1))
        times = [event.at for event in mine]
        assert times == sorted(times)


async def _lived_through(history: list, ahead: int) -> tuple[list[Timer], list[Event]]:
    """What became of some timers, and what was told."""
    store = Outbox(MemoryStore())
    clocks = [NOW, NOW + ahead]
    told = OnFailure(callback=make_spec().callback)
    spec = make_spec(retry_policy=RetryPolicy(max_attempts=2, jitter=0), on_failure=told)
    made = [make_timer(spec=spec) for _ in range(3)]
    await store.insert([Insert(timer) for timer in made])
    earlier = made
    for node, number, chosen, passed, is_stale in history:
        clocks[node] += passed
        current = await store.get([timer.id for timer in made])
        timer = earlier[number] if is_stale else current[number]
        allowed = sorted(action for action, row in TRANSITIONS.items() if timer.status in row)
        new = ACTIONS[allowed[chosen % len(allowed)]](timer, clocks[node])
        [is_won] = await store.apply([Change(timer, new)])
        assert is_won == (timer.version == current[number].version)
        if not is_stale:
            earlier = current
    return await store.get([timer.id for timer in made]), await store.events(ALL_SHARDS, None, 999)
