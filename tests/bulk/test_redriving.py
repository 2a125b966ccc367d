"""All failed timers that match are tried again, counted first if that is asked for."""

import pytest

from duetime import model
from duetime.timer import HttpCallback, Kind, OnFailure, Outcome, Status, Timer
from tests.bulk.desk import Crash, CrashingStore, Desk, counts, stored
from tests.factories import NODE, insert, make_spec, make_timer

MADE = 1_749_000_000_000
TOLD = OnFailure(callback=HttpCallback(url="https://told.example/"))


def failed(error: str, kind: Kind = Kind.HTTP, **spec: object) -> Timer:
    timer = make_timer(created_at=MADE, execute_at=MADE, spec=make_spec(**spec))
    claim = model.claim(timer, NODE, MADE, 10_000)
    return model.finish(claim, Outcome(kind=kind, error=error), MADE, 0.5)


async def put_all(desk: Desk) -> list[Timer]:
    timers = [
        failed("HTTP 503 Service Unavailable", tags=("a",)),
        failed("HTTP 503 Service Unavailable", tags=("b",), on_failure=TOLD),
        failed("no answer within 30s", Kind.TIMEOUT, tags=("a",)),
        model.expire(make_timer(created_at=MADE, execute_at=MADE), MADE),
        make_timer(created_at=MADE, execute_at=MADE * 2),
        model.cancel(make_timer(created_at=MADE), MADE),
    ]
    await insert(desk.store, *timers)
    return timers


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ({"all": True}, [0, 1, 2, 3]),
        ({"status": "failed"}, [0, 1, 2, 3]),
        ({"last_error": "503"}, [0, 1]),
        ({"last_error": "DEADLINE passed"}, [3]),
        ({"outcome": "timeout"}, [2]),
        ({"outcome": "http", "tags": ["b"]}, [1]),
        ({"tags": ["none"]}, []),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
async def test_what_matches_is_tried_again(desk: Desk, wanted, places, dry_run):
    """Those that have not failed do not even match; a dry run counts the same and changes none."""
    before = await put_all(desk)
    action = await desk.ask("redrive", wanted, dry_run=dry_run)
    await desk.work()
    done = await desk.see(action)
    assert (done.state, counts(done)) == ("done", (len(places), len(places), 0, 0))
    for place, (old, new) in enumerate(zip(before, await stored(desk.store, before), strict=True)):
        if dry_run or place not in places:
            assert new == old
        else:
            assert (new.status, new.wake_at) == (Status.PENDING, desk.clock.now())
            assert new.progress.attempt == old.progress.attempt
    assert len(desk.noticed) == (0 if dry_run else len(places))


async def test_other_statuses_are_skipped(desk: Desk):
    """Whoever names others too is told how many could not be redriven."""
    await put_all(desk)
    action = await desk.ask("redrive", {"status": ["failed", "canceled", "pending"]})
    await desk.work()
    assert counts(await desk.see(action)) == (6, 4, 2, 0)


@pytest.mark.parametrize("how", ["before", "half way", "after"])
async def test_a_crash_redrives_none_twice(desk: Desk, clock, how):
    """Whoever takes the action up counts what was done, and redrives the rest once."""
    timers = await put_all(desk)
    dying = Desk(CrashingStore(desk.store, 4, how), clock)
    action = await dying.ask("redrive", {"all": True})
    with pytest.raises(Crash):
        await dying.work()
    await desk.take_over()
    done = await desk.see(action)
    assert (done.state, counts(done)) == ("done", (4, 4, 0, 0))
    versions = [timer.version for timer in await stored(desk.store, timers)]
    assert versions[:4] == [timer.version + 1 for timer in timers[:4]]


async def test_by_a_key_it_is_done_once(desk: Desk):
    """Asked for again with the same key, it is the same action; a timer that failed again stays."""
    timers = await put_all(desk)
    first = await desk.ask("redrive", {"all": True}, key="k")
    await desk.work()
    again = await desk.ask("redrive", {"all": True}, key="k")
    await desk.work()
    assert again.id == first.id
    now = await stored(desk.store, timers[:4])
    assert [timer.version for timer in now] == [timer.version + 1 for timer in timers[:4]]
