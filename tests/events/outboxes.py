"""What tests of the live stream share: events that are written by hand, at the moment of choice."""

from duetime import ids
from duetime.clock import Millis
from duetime.stores import Store
from duetime.timer import Event, Timer
from tests.factories import make_timer
from tests.waiting import settle


def event_of(timer: Timer, at: Millis, version: int = 1, number: int = 0, **fields) -> Event:
    """An event of a timer, with the id that such an event has."""
    defaults = {
        "id": ids.event_id(timer.id, at, version, number),
        "type": "created" if version == 1 else "updated",
        "tenant": timer.tenant,
        "group": timer.group,
        "timer": timer.id,
        "timer_id": timer.timer_id,
        "version": version,
        "at": at,
    }
    return Event(**defaults | fields)


async def write(store: Store, *events: Event) -> None:
    """Let these be committed now, whenever they were made."""
    store._tell(events)  # the memory store, whose timers nobody looks at here


async def some(store: Store, at: Millis, count: int = 1, **fields) -> list[Event]:
    """Events of as many timers."""
    events = [event_of(make_timer(**fields), at) for _ in range(count)]
    await write(store, *events)
    return events


async def pass_time(clock, seconds: float, step: Millis = 50) -> None:
    """Let time pass bit by bit, and everybody do what they do in it."""
    for _ in range(round(seconds * 1000 / step)):
        await settle(8)
        clock.advance(step)
    await settle(8)
