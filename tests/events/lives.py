"""Lives of timers that leave many events."""

from duetime import model
from duetime.stores import Change, Insert, Store
from duetime.timer import Kind, Outcome, Timer
from tests.factories import NODE, NOW, make_timer

OK = Outcome(kind=Kind.OK, status_code=200, latency_ms=1)
MANY = ["created", "due", "attempt_started", "completed"]


async def live(store: Store, count: int = 1, *, now: int = NOW, **fields: object) -> list[Timer]:
    """Make timers, and let each be delivered: four events each, of three versions."""
    timers = [make_timer(created_at=now, **fields) for _ in range(count)]
    assert await store.insert([Insert(timer) for timer in timers]) == [None] * count
    claimed = [model.claim(timer, NODE, now + 1, 10_000) for timer in timers]
    assert all(await store.apply(list(map(Change, timers, claimed))))
    ended = [model.finish(timer, OK, now + 2, 0.5) for timer in claimed]
    assert all(await store.apply(list(map(Change, claimed, ended))))
    return ended
