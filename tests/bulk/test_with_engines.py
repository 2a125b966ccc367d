"""Whole nodes on one clock, engines and clerks together: a group is paused and resumed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import msgspec
import pytest

from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.tenancy.requests import PutGroup
from duetime.testing import FakeClock
from duetime.timer import Kind, Outcome, Status, Timer
from tests.bulk.desk import under_way
from tests.engine.conftest import CLAIM_FOR, Node, running
from tests.waiting import settle

TICK = 100
AT_ONCE = 3_000  # milliseconds within which all is started that is due
TAKEN_UP = CLAIM_FOR + 15_000  # the same when a node is gone
RETRIED = Outcome(kind=Kind.TIMEOUT, error="e", retryable=True)

T = TypeVar("T")

pytestmark = pytest.mark.promise("group-pause-holds")


class Cluster:
    """Nodes that run, while a test lets time pass."""

    def __init__(self, clock: FakeClock, names: str) -> None:
        self.clock = clock
        self.store = MemoryStore()
        self.nodes = [Node(self.store, clock, name) for name in names]
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        for node in self.nodes:
            node.service.add_chores(node.engine)
            self.tasks.append(await running(node))
        await self.pass_by(3_000)

    async def kill(self, node: Node) -> None:
        """End a node at once: it hands nothing over and writes nothing more."""
        task = self.tasks[self.nodes.index(node)]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def stop(self) -> None:
        for node in self.nodes:
            await self.kill(node)

    async def pass_by(self, millis: int) -> None:
        for _ in range(0, millis, TICK):
            self.clock.advance(TICK)
            await settle(60)

    async def until(self, is_so: Callable[[], object], within: int) -> None:
        """Let time pass until it is so."""
        for _ in range(0, within, TICK):
            if is_so():
                return
            await self.pass_by(TICK)
        assert is_so()

    async def answer(self, call: Awaitable[T]) -> T:
        """What a call answers, while time passes."""
        asked = asyncio.ensure_future(call)
        await settle(60)
        await self.until(asked.done, 40_000)
        return await asked

    def sent(self) -> list[str]:
        """The timers that receivers have got, in any order, as often as they have."""
        return sorted(timer.id for node in self.nodes for timer in node.sender.sent)

    async def statuses(self, timers: list[Timer]) -> set[Status]:
        return {timer.status for timer in await self.store.get([t.id for t in timers]) if timer}


@pytest.fixture
async def cluster(clock: FakeClock) -> AsyncIterator[Cluster]:
    cluster = Cluster(clock, "ab")
    await cluster.start()
    yield cluster
    await cluster.stop()


async def paused(cluster: Cluster, rule: str, count: int) -> list[Timer]:
    """Have so many timers fall due in a group while that is paused; these are answered."""
    a, b = cluster.nodes
    await cluster.answer(
        a.service.groups.put(OPERATOR, "g", msgspec.convert({"on_resume": rule}, PutGroup))
    )
    caught = [
        await (a if number % 2 else b).create(group="g", delay=f"{10 + number}s")
        for number in range(count)
    ]
    await cluster.answer(a.service.groups.pause(OPERATOR, "g"))
    await cluster.pass_by(1_000 * (count + 15))
    assert cluster.sent() == []
    return caught


@pytest.mark.parametrize("rule", ["all", "latest", "none"])
async def test_a_group_is_paused_and_resumed(cluster: Cluster, rule: str):
    """Within seconds all fires that should, once, and nothing else; then life goes on."""
    a, b = cluster.nodes
    policy = {"max_attempts": 2, "initial_interval": "8s", "jitter": 0}
    for node in cluster.nodes:
        node.sender.answers.extend([RETRIED, RETRIED])
    before = [await node.create(group="g", retry_policy=policy) for node in cluster.nodes]
    await cluster.until(lambda: len(cluster.sent()) == 2, AT_ONCE)
    for node in cluster.nodes:
        node.sender.sent.clear()
        node.sender.answers.clear()
    caught = [*before, *await paused(cluster, rule, 9)]
    future = await a.create(group="g", delay="60s")
    elsewhere = await b.create(group="h", delay="1s")
    await cluster.until(lambda: cluster.sent() == [elsewhere.id], AT_ONCE)
    resumed_at = cluster.clock.now()
    resumed = await cluster.answer(b.service.resume_group(OPERATOR, "g"))
    assert resumed.resuming is not None
    created = await b.create(group="g", delay="0s")  # while the action may be at work
    fires = {"all": caught, "latest": caught[-1:], "none": []}[rule]
    wanted = sorted(timer.id for timer in (*fires, elsewhere, created))
    await cluster.until(lambda: cluster.sent() == wanted, AT_ONCE)
    assert cluster.clock.now() - resumed_at <= 2 * AT_ONCE
    await cluster.pass_by(10_000)
    assert cluster.sent() == wanted
    assert await cluster.statuses(fires) <= {Status.COMPLETED}
    others = [timer for timer in caught if timer not in fires]
    assert await cluster.statuses(others) <= {Status.CANCELED}
    assert await under_way(cluster.store) == []
    for node in cluster.nodes:
        group = await node.service.groups.get(OPERATOR, "g")
        assert (group.is_paused, group.resuming) == (False, None)
    await cluster.pass_by(60_000)
    assert cluster.sent() == sorted([*wanted, future.id])


@pytest.mark.parametrize("rule", ["all", "latest", "none"])
async def test_the_node_is_gone_that_lets_them_go(cluster: Cluster, rule: str):
    """Another one takes the action up, and the timers; all comes to the same end."""
    a, b = cluster.nodes
    caught = await paused(cluster, rule, 40)
    await cluster.answer(b.service.resume_group(OPERATOR, "g"))
    await cluster.until(lambda: _is_under_way(b), AT_ONCE)
    [action] = await under_way(cluster.store)
    assert action.node == b.service.actions._clerk.name
    assert not action.has_seen_all
    await cluster.kill(b)
    fires = {"all": caught, "latest": caught[-1:], "none": []}[rule]
    await cluster.pass_by(TAKEN_UP)
    # What was sent when the node died may be sent once more, and nobody can know better.
    assert set(cluster.sent()) == {timer.id for timer in fires}
    assert len({timer.id for timer in a.sender.sent}) == len(a.sender.sent)
    assert await cluster.statuses(fires) <= {Status.COMPLETED}
    assert await cluster.statuses([t for t in caught if t not in fires]) <= {Status.CANCELED}
    assert await under_way(cluster.store) == []
    group = await a.service.groups.get(OPERATOR, "g")
    assert (group.is_paused, group.resuming) == (False, None)
    done = await a.service.actions.get(OPERATOR, action.id)
    assert (done.state, done.tally.matched, done.tally.changed) == ("done", 40, 40)


def _is_under_way(node: Node) -> bool:
    """Tell whether the node has written a batch of an action, and not the last one."""
    works = node.service.actions._clerk._works.values()
    return any(work.action.cursor is not None for work in works)
