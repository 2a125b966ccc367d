"""A backlog is timers that are due far in the future, for a database to be filled with."""

import os
import random
from collections.abc import Iterator

from msgspec import Raw

from bench.requests import FAR, now_ms
from duetime import ids
from duetime.model import HttpCallback, Spec, Timer

YEAR = 365 * 86_400_000


def num_shards(unless_told: int = 256) -> int:
    """Over how many shards timers are spread: what the nodes that are measured are told too."""
    return int(os.environ.get("NUM_SHARDS") or unless_told)


def far_timers(count: int, sink_port: int, shards: int | None = None) -> Iterator[Timer]:
    """Timers that are due some time between tomorrow and in a year, in no order."""
    shards = shards or num_shards()
    now = now_ms()
    chance = random.Random(count)
    url = f"http://127.0.0.1:{sink_port}/hook"
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
            spec=Spec(callback=HttpCallback(url=url, payload=payload), correlation_id=id_),
        )
