"""Timers as users make them, what becomes of them, and what then lies in the table."""

from msgspec import Raw
from msgspec.structs import replace

from duetime import model
from duetime.stores import Change
from duetime.timer import HttpCallback, Kind, Outcome
from tests.factories import NOW, claim_of, make_spec, make_timer
from tests.servers.dynamodb import ask

BODY = b'{"order":"A-00000000","customer":4711,"action":"expire"}'
HEAVY = b'"%s"' % (b"x" * 5_000)


def timer_of(payload=BODY, *, has_key=False, **overrides):
    """A timer as users make them."""
    callback = HttpCallback(url="https://shop.example/hooks/orders", payload=Raw(payload))
    timer = make_timer(shard=7, spec=make_spec(callback=callback), **overrides)
    return timer if has_key else replace(timer, timer_id=timer.id)


def finish_of(timer):
    """The change that ends a claimed timer, with its attempt."""
    outcome = Outcome(kind=Kind.OK, status_code=200, latency_ms=12)
    done = model.finish(timer, outcome, NOW + 50, 0.5)
    return Change(timer, done, model.attempt_record(timer, done, outcome, NOW + 50))


async def fired(store, timer):
    claim = claim_of(timer)
    finish = finish_of(claim.new)
    assert await store.apply([claim]) == [True]
    assert await store.apply([finish]) == [True]
    return finish.new


async def everything(url):
    return (await ask(url, "Scan", ConsistentRead=True))["Items"]


async def left(url):
    """All that is not of the store's own: what lies beside timers, and they."""
    return [item for item in await everything(url) if item["pk"]["S"] not in {"shards", "records"}]


async def expiries(url):
    """When each item is dropped that is not of the store's own."""
    times = [int(item["x"]["N"]) if "x" in item else None for item in await left(url)]
    return sorted(times, key=str)
