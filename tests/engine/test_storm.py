"""A storm: receivers of every temper, users who change their minds, and a store that fails.

The engine runs with all its loops on a clock ten times as fast as the world's, and with limits so
small that every queue overflows. What happens when is left to chance; what must hold is not.
"""

import asyncio
import random
from collections import Counter

import pytest

from duetime.engine import Engine, column, places, queues, turned_away
from duetime.ids import SHARDS
from duetime.service import Service
from duetime.tenancy.group import Group
from duetime.tenancy.limits import Limits
from duetime.tenancy.rules import Rules
from duetime.tenancy.tenant import Tenant
from duetime.timer import DEFAULT_GROUP, DEFAULT_TENANT, Status
from tests.engine.weather import (
    FastClock,
    Receivers,
    StormyStore,
    Users,
    counters,
    settled,
    unlike_what_was_told,
)


@pytest.fixture
def cramped(monkeypatch):
    monkeypatch.setattr(column, "CAPACITY", 300)
    monkeypatch.setattr(column, "MOST_BYTES", 600_000)
    monkeypatch.setattr(turned_away, "MOST_AWAY", 60)
    monkeypatch.setattr(places, "MOST_BYTES_UNDER_WAY", 700_000)
    monkeypatch.setattr(queues, "MOST_BYTES_WAITING", 500_000)


@pytest.mark.promise("never-lost", "never-early", "cancel-holds", "own-number")
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_a_storm(cramped, seed):
    """None lost, none early, none after its cancel, no attempt number twice, and no counter off.

    Half of them have limits, and several tenants, of which none may fill the agenda.
    """
    chance = random.Random(seed)
    clock, store = FastClock(), StormyStore(chance)
    receivers = Receivers(clock, chance)
    rules = await with_limits(Rules(store.store, clock)) if seed % 2 else None
    engine = Engine(
        "node-1", store, receivers, clock, max_in_flight=60, target_concurrency=16, rules=rules
    )
    engine.targets.queues.sure, engine.targets.queues.shared = 20, 60
    engine.reader._page = 50
    service = Service(store, receivers, clock, engine=engine)
    users = Users(service, receivers, chance)
    running = asyncio.create_task(engine.run())
    for _ in range(250):
        await users.act()
    store.rate = 0
    await settled(store.store, service, receivers)
    await engine.stop(1.0)
    await running

    timers = store.store._timers.values()
    assert users.granted.keys() == {"create", "cancel", "update", "fire", "pause", "resume"}
    assert users.granted["create"] > 500
    assert unlike_what_was_told(store.store, receivers) == []
    assert {timer.status for timer in timers} <= {Status.COMPLETED, Status.CANCELED}
    reached = {id_ for id_, _, _ in receivers.arrived}
    assert reached >= {timer.id for timer in timers if timer.status is Status.COMPLETED}
    assert receivers.wrong == []
    assert [twice for twice, count in Counter(receivers.arrived).items() if count > 1] == []
    assert counters(engine) == [0] * len(counters(engine))


async def with_limits(rules):
    """Limits that hold up some of a storm, of the group and of the tenant of all its timers."""
    for shelf, name, document in (
        (rules.tenants, "other", Tenant(name="other", created_at=1, updated_at=1)),
        (
            rules.tenants,
            DEFAULT_TENANT,
            Tenant(
                name=DEFAULT_TENANT,
                limits=Limits(per_second=120, burst=30),
                created_at=1,
                updated_at=1,
            ),
        ),
        (
            rules.groups,
            f"{DEFAULT_TENANT}/{DEFAULT_GROUP}",
            Group(
                tenant=DEFAULT_TENANT,
                name=DEFAULT_GROUP,
                num_shards=SHARDS,
                limits=Limits(concurrency=25),
                created_at=1,
                updated_at=1,
            ),
        ),
    ):
        assert await rules.put(shelf, name, None, document)
    return rules
