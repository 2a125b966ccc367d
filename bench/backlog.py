"""A backlog is timers that are due far in the future, for a database to be filled with."""

import os
import random
from collections.abc import Iterator

from msgspec import Raw

from bench.requests import FAR, now_ms
from duetime import ids
from duetime.model import HttpCallback, Spec, Timer

YEAR = 365 * 86_400_000
NOWHERE = "http://127.0.0.1:9/hook"  # none of these is ever sent


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
