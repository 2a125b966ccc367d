"""A backlog is timers for a database to be filled with: far from due, or all due at once."""

import os
import random
from collections.abc import Iterator
from typing import Any

from msgspec import Raw

from duetime import ids, model
from duetime.benching.requests import FAR, now_ms
from duetime.clock import Millis
from duetime.stores import Change
from duetime.stores.codec import COLUMNS, to_columns
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


def far_rows(count: int) -> Iterator[list[Any]]:
    """The same as the values of ``codec.COLUMNS``, each made from the first one.

    Ten million take a minute so. To make each a timer first would take four times as long.
    """
    if not count:
        return
    first = next(far_timers(1))
    now, pattern = first.created_at, list(to_columns(first))
    places = {name: place for place, name in enumerate(COLUMNS)}
    are_ids = [place for place, value in enumerate(pattern) if value == first.id]
    execute_at, wake_at, shard = (places[name] for name in ("execute_at", "wake_at", "shard"))
    spec_at, spec = places["spec"], pattern[places["spec"]]
    head, tail = spec.split(f"{0:08d}")
    middle, end = tail.split(first.id)
    shards = int(os.environ.get("NUM_SHARDS", "256"))
    spread = random.Random(count).randrange
    for number in range(count):
        row = pattern.copy()
        row[shard] = ids.spread_shard(shards)
        id_ = ids.new_id(now + number // 100, row[shard])
        for place in are_ids:
            row[place] = id_
        row[execute_at] = row[wake_at] = now + FAR + spread(YEAR)
        row[spec_at] = f"{head}{number:08d}{middle}{id_}{end}"
        yield row


def timer_at(url: str, due: Millis) -> Timer:
    """A timer that calls a URL, whether that is due soon or late already."""
    id_ = ids.new_id(now_ms(), ids.spread_shard(int(os.environ.get("NUM_SHARDS", "256"))))
    callback = HttpCallback(url=url, payload=Raw(b'{"order":"A-4711","action":"expire"}'))
    return Timer(
        id=id_,
        tenant="default",
        group="default",
        timer_id=id_,
        execute_at=due,
        wake_at=due,
        created_at=min(now_ms(), due),
        updated_at=min(now_ms(), due),
        spec=Spec(callback=callback, correlation_id=id_),
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
