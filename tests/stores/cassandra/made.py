"""Timers of one shard, and what makes them fire."""

from duetime import model
from duetime.stores import Change
from duetime.timer import Kind, Outcome
from tests.factories import NODE, make_timer

SHARD = 5
SENT = Outcome(kind=Kind.OK, status_code=200)


def at(wake_at):
    return make_timer(shard=SHARD, execute_at=wake_at)


async def fire(store, timers, now):
    """Claim and complete timers, at that time."""
    claims = [model.claim(timer, NODE, now, 30_000) for timer in timers]
    done = [model.finish(claim, SENT, now, 0.5) for claim in claims]
    for olds, news in ((timers, claims), (claims, done)):
        changes = [Change(old, new) for old, new in zip(olds, news, strict=True)]
        assert all(await store.apply(changes))
