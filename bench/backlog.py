"""A backlog is timers for a database to be filled with: far from due, or all due at once."""

import os
import random
from collections.abc import Iterator

from msgspec import Raw

from duetime import ids, model
from duetime.benching.requests import FAR, now_ms
from duetime.stores import Change
from duetime.timer import HttpCallback, Kind, Outcome, Spec, Timer

DUE = 1_750_000_000_000  # when those are due that are due at once
YEAR = 365 * 86_400_000
NOWHERE = "http://127.0.0.1:9/hook"  # none of these is ever sent

_OK = Outcome(kind=Kind.OK, status_code=200, latency_ms=3)


def spread_over(shards: int) -> None:
    """Say over how many shards timers are spread: here, and by all processes that follow."""
    os.environ["NUM_SHARDS"] = str(shards)


def far_timers(count: int) -> Iterator[Timer]:
    """Timers that are due some time between tomorrow and in a year, in no order."""
    shards = int(os.environ.get("NUM_SHARDS", "256"))
    now = now_ms()
    chance = random.Random(count)
    for number in range(count):
        id_ = ids.new_id(now + number // 100, ids.spread_shard(shards))
        due = now + FAR + chance.randrange(YEAR)
        payload = Raw(b'{"order":"A-%08d","customer":4711,"action":"expire"}' % number)
        yield Timer(
            id=id_,
            tenant="default",
            group="default",
            timer_id=id_,
            execute_at=due,
            wake_at=due,
            created_at=now,
            updated_at=now,
            spec=Spec(callback=HttpCallback(url=NOWHERE, payload=payload), correlation_id=id_),
        )


def due_timers(count: int) -> list[Timer]:
    """Timers that are all due, with a payload of about 300 bytes, each in another shard."""
    made = []
    for number in range(count):
        id_ = ids.new_id(DUE + number // 100, number % ids.SHARDS)
        payload = Raw(b'{"order":%d,"text":"%s"}' % (number, b"x" * 280))
        spec = Spec(
            callback=HttpCallback(url="https://example.com/hooks/1", payload=payload),
            name="reminder",
            correlation_id=id_,
        )
        made.append(
            Timer(
                id=id_,
                tenant="default",
                group="default",
                timer_id=id_,
                execute_at=DUE,
                wake_at=DUE,
                created_at=DUE + number // 100,
                updated_at=DUE,
                spec=spec,
            )
        )
    return made


def finishing(timer: Timer) -> Change:
    """The change that ends a successful attempt, with its line of the log."""
    done = model.finish(timer, _OK, DUE + 1, 0.5)
    return Change(timer, done, model.attempt_record(timer, done, _OK, DUE + 1))
