"""A storm over several nodes: they are killed, suspended, stopped and replaced under load.

What a node does while it is suspended is nothing: its store and its receivers hold every call until
it goes on, with claims and leases that have ended meanwhile.
"""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from duetime.engine import Engine
from duetime.service import Service
from duetime.stores.memory import MemoryStore
from duetime.timer import Outcome, Status
from tests.engine.weather import (
    FastClock,
    Receivers,
    StormyStore,
    Users,
    counters,
    sent_after_it_was_taken_up,
    settled,
    unlike_what_was_told,
)

CLAIM_FOR = 1_000


class Suspendable:
    """Passes every call on, but not while its node is suspended, before or after."""

    def __init__(self, inner: Any, goes_on: asyncio.Event) -> None:
        self._inner = inner
        self.traits = inner.traits
        self._goes_on = goes_on

    def __getattr__(self, name):
        method = getattr(self._inner, name)
        if name in {"listen", "problem", "target"}:
            return method

        async def call(*args):
            await self._goes_on.wait()
            try:
                return await method(*args)
            finally:
                await self._goes_on.wait()

        return call


class StormyNode:
    """One node with all its loops."""

    def __init__(self, name, memory, clock, receivers, chance) -> None:
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.stormy = StormyStore(chance)
        self.stormy.store = memory
        self.stormy.rate = 0.01
        store = Suspendable(self.stormy, self.goes_on)
        sender = HeldBack(receivers, self.goes_on)
        self.engine = Engine(name, store, sender, clock, claim_for=CLAIM_FOR)
        self.service = Service(store, sender, clock, engine=self.engine)
        self.users = Users(self.service, receivers, chance)
        self.running = asyncio.create_task(self.engine.run())

    async def kill(self) -> None:
        tasks = list(self.engine.departures._tasks)
        for task in (self.running, *tasks):
            task.cancel()
        await asyncio.gather(self.running, *tasks, return_exceptions=True)

    async def suspend(self, seconds: float) -> None:
        self.goes_on.clear()
        await asyncio.sleep(seconds)
        self.goes_on.set()

    async def stop(self) -> None:
        await self.engine.stop(5.0)
        await self.running


class HeldBack:
    """A sender whose node may be suspended before the claim is looked at, but not behind that."""

    def __init__(self, receivers: Receivers, goes_on: asyncio.Event) -> None:
        self._receivers = receivers
        self._goes_on = goes_on
        self.problem, self.target = receivers.problem, receivers.target

    async def send(self, timer, is_mine) -> Outcome:
        await self._goes_on.wait()
        outcome = await self._receivers.send(timer, is_mine)
        await self._goes_on.wait()
        return outcome


@pytest.mark.promise("never-lost", "cancel-holds", "one-node-per-attempt", "own-number")
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_a_storm_of_nodes(seed):
    """None lost, none early, none after its cancel; attempts arrive once each, and in order."""
    chance = random.Random(seed)
    clock, memory = FastClock(), MemoryStore()
    receivers = Receivers(clock, chance)
    granted: Counter[str] = Counter()

    def start(name: str) -> StormyNode:
        node = StormyNode(name, memory, clock, receivers, chance)
        node.users.granted = granted
        return node

    nodes = [start(f"node-{number}") for number in range(3)]
    gone, suspended = [], []
    for round_ in range(300):
        # A call on a suspended node would wait for it.
        awake = [node for node in nodes if node.goes_on.is_set()]
        await chance.choice(awake).users.act()
        if round_ % 30 == 29:
            node = awake.pop(chance.randrange(len(awake)))
            fate = chance.choice(["kill", "stop", "suspend"]) if awake else "none"
            if fate == "suspend":
                seconds = chance.choice([0.03, 0.11, 0.3])
                suspended.append(asyncio.create_task(node.suspend(seconds)))
            elif fate != "none":
                nodes.remove(node)
                gone.append(asyncio.create_task(getattr(node, fate)()))
                nodes.append(start(f"node-{round_}"))
    await asyncio.gather(*gone, *suspended)
    for node in nodes:
        node.stormy.rate = 0
    await settled(memory, nodes[0].service, receivers)
    await asyncio.gather(*(node.stop() for node in nodes))

    timers = memory._timers.values()
    assert granted.keys() == {"create", "cancel", "update", "fire", "pause", "resume"}
    assert granted["create"] > 500
    assert unlike_what_was_told(memory, receivers) == []
    assert {timer.status for timer in timers} <= {Status.COMPLETED, Status.CANCELED}
    reached = {id_ for id_, _, _ in receivers.arrived}
    assert reached >= {timer.id for timer in timers if timer.status is Status.COMPLETED}
    assert receivers.wrong == []
    assert [twice for twice, count in Counter(receivers.arrived).items() if count > 1] == []
    assert sent_after_it_was_taken_up(receivers.arrived) == []
    for node in nodes:
        assert counters(node.engine) == [0] * len(counters(node.engine))
