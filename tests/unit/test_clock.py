"""The clocks, and times as text."""

import asyncio
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.clock import (
    LATEST,
    SharedTimeLimit,
    SystemClock,
    from_datetime,
    time_limit,
    to_rfc3339,
)
from duetime.testing import FakeClock
from tests.waiting import settle


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (999, "1970-01-01T00:00:00.999Z"),
        (1_761_474_600_000, "2025-10-26T10:30:00Z"),
        (1_761_474_600_250, "2025-10-26T10:30:00.250Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (LATEST, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_to_rfc3339(at: int, text: str):
    """A time is written in UTC, with milliseconds only where there are any."""
    assert to_rfc3339(at) == text


@pytest.mark.promise("never-early")
def test_from_datetime_rounds_up():
    """A fraction of a millisecond is rounded up, before 1970 as well, so that nothing is early."""
    at = datetime(2025, 10, 26, 10, 30, 0, 1, tzinfo=UTC)
    assert from_datetime(at) == 1_761_474_600_001
    assert from_datetime(at.replace(microsecond=1000)) == 1_761_474_600_001
    assert from_datetime(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == 0


def test_from_datetime_minds_the_offset():
    """The same moment in any zone is the same time."""
    berlin = timezone(timedelta(hours=2))
    assert from_datetime(datetime(2025, 10, 26, 12, 30, tzinfo=berlin)) == 1_761_474_600_000


@given(st.integers(-62_135_596_800_000, LATEST))
def test_round_trip(at: int):
    """What is written is read back as the same."""
    assert from_datetime(datetime.fromisoformat(to_rfc3339(at))) == at


@pytest.mark.promise("never-early")
def test_system_clock_rounds_down(monkeypatch: pytest.MonkeyPatch):
    """The wall clock rounds down, so that a time has really come when it says so."""
    monkeypatch.setattr(time, "time_ns", lambda: 1_999_999)
    assert SystemClock().now() == 1


async def test_system_clock_waits():
    """A wait ends with the event, or at its time, whichever is first."""
    clock, event = SystemClock(), asyncio.Event()
    assert await clock.wait(event, 0.001) is False
    assert await clock.wait(event, -1) is False
    asyncio.get_running_loop().call_soon(event.set)
    assert await clock.wait(event, 60) is True
    assert await clock.wait(event, 0) is True


async def test_fake_clock_waits_for_the_test():
    """A fake clock stands still until it is moved, and then wakes exactly who is due."""
    clock, never = FakeClock(), asyncio.Event()
    short = asyncio.create_task(clock.wait(never, 1))
    long = asyncio.create_task(clock.wait(never, 2))
    await asyncio.sleep(0)
    clock.advance(999)
    await asyncio.sleep(0)
    assert not short.done()
    clock.advance(1)
    assert await short is False
    assert not long.done()
    never.set()
    assert await long is True


def test_fake_clock_moves():
    """Advancing moves both clocks; stepping moves only the wall clock, in either direction."""
    clock = FakeClock(1000)
    start = clock.monotonic()
    clock.advance(500)
    assert (clock.now(), clock.monotonic() - start) == (1500, 0.5)
    clock.step_wall_clock(-700)
    assert (clock.now(), clock.monotonic() - start) == (800, 0.5)


@pytest.mark.parametrize("make", [SystemClock, FakeClock])
async def test_alarm_rings_unless_it_is_cancelled(make: type[SystemClock | FakeClock]):
    """What is to be done later is done, once, and not if it was called off."""
    clock, rung = make(), asyncio.Event()
    called_off = []
    clock.alarm(0.001, lambda: called_off.append(1)).cancel()
    clock.alarm(0.002, rung.set)
    if isinstance(clock, FakeClock):
        clock.advance(1)
        await asyncio.sleep(0)
        assert not rung.is_set()
        clock.advance(1)
    async with asyncio.timeout(5):
        await rung.wait()
    assert called_off == []


@pytest.mark.parametrize("make", [SystemClock, FakeClock])
async def test_time_limit(make: type[SystemClock | FakeClock]):
    """What takes too long is ended, and what does not is not."""
    clock = make()

    async def hang() -> None:
        async with time_limit(clock, 0.001):
            if isinstance(clock, FakeClock):
                clock.advance(1)
            await asyncio.Event().wait()

    async with time_limit(clock, 60):
        pass
    with pytest.raises(TimeoutError):
        await hang()


async def test_a_shared_time_limit():
    """Each has its whole time, whoever came before it; and what comes in time is not touched."""
    clock = FakeClock()
    limit = SharedTimeLimit(clock, 60)
    ends: list[str] = []

    async def work(name: str, done: asyncio.Event) -> None:
        try:
            await limit.run(done.wait())
            ends.append(f"{name} is done")
        except TimeoutError:
            ends.append(f"{name} is late")
        await asyncio.sleep(0)  # nothing of it is left behind that ends what comes after

    events = [asyncio.Event() for _ in range(3)]
    tasks = []
    for name, done in zip("abc", events, strict=True):
        tasks.append(asyncio.create_task(work(name, done)))
        await settle()
        clock.advance(20_000)
    events[1].set()
    await settle()
    assert sorted(ends) == ["a is late", "b is done"]
    clock.advance(39_999)
    await settle()
    assert len(ends) == 2
    clock.advance(1)
    await settle()
    assert ends[2:] == ["c is late"]
    await asyncio.gather(*tasks)
    assert (limit._since, limit._late, limit._alarm) == ({}, set(), None)


async def test_who_is_cancelled_within_a_shared_time_limit_is_not_late():
    """Also if both come at once."""
    clock = FakeClock()
    limit = SharedTimeLimit(clock, 60)
    for is_late in (False, True):
        task = asyncio.create_task(limit.run(asyncio.Event().wait()))
        await settle()
        if is_late:
            clock.advance(60_000)
            await asyncio.sleep(0)
        task.cancel()
        await settle()
        assert task.cancelled()
    assert limit._since == {}
