"""A node that stops hands over to the others, and no timer is late for it."""

import asyncio
import random

import pytest

from duetime.nodes import NODE_KIND
from duetime.stores.memory import MemoryStore
from duetime.testing import FlakyStore
from duetime.timer import Status
from tests.engine.conftest import DeafStore, Node
from tests.waiting import settle


class Cluster:
    """Nodes with all their loops on one store, and a clock that the test moves."""

    def __init__(self, clock, make_store) -> None:
        self.clock = clock
        self.memory = MemoryStore()
        self.make_store = make_store
        self.all: list[Node] = []
        self._engines: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str) -> Node:
        node = Node(self.make_store(self.memory), self.clock, name)
        self.all.append(node)
        self._engines[name] = asyncio.create_task(node.engine.run())
        return node

    async def stop(self, node: Node, drain_for: float = 25) -> int:
        """Stop a node; answers how many milliseconds that took."""
        began_at = self.clock.now()
        stopping = asyncio.create_task(node.engine.stop(drain_for))
        await settle()
        while not stopping.done():
            await self.run(10)
        await stopping
        await self._engines.pop(node.engine.members._node)
        return self.clock.now() - began_at

    async def run(self, millis: int) -> None:
        for _ in range(millis // 10):
            self.clock.advance(10)
            await settle()

    async def end(self) -> None:
        for node in self.all:
            if node.engine.members._node in self._engines:
                await self.stop(node)

    @property
    def sent(self) -> list[tuple[str, int]]:
        return [each for node in self.all for each in node.sent]

    async def lateness(self, timers) -> int:
        """How late the latest was, in milliseconds."""
        stored = await self.memory.get([timer.id for timer in timers])
        assert {timer.status for timer in stored} == {Status.COMPLETED}
        return max(timer.executed_at - timer.execute_at for timer in stored)


async def create_many(node: Node, count: int, within: int, chance: random.Random) -> list:
    return [
        await node.create(
            delay=f"{chance.randrange(within)}ms",
            callback={"type": "http", "url": f"https://{chance.randrange(50)}.example/"},
        )
        for _ in range(count)
    ]


@pytest.mark.promise("clean-stop")
@pytest.mark.parametrize("make_store", [FlakyStore, DeafStore])
async def test_a_stop_makes_no_timer_late(clock, make_store):
    """The others take over while the leaving node goes on, whether they hear of it or not."""
    cluster = Cluster(clock, make_store)
    a, b = cluster.start("a"), cluster.start("b")
    await cluster.run(5_000)
    timers = await create_many(a, 150, 8_000, random.Random(1))
    await cluster.run(3_000)  # they have all been read, or heard of
    await cluster.stop(b)
    await cluster.run(9_000)
    assert sorted(cluster.sent) == sorted((timer.id, 1) for timer in timers)
    news_lost = make_store is DeafStore
    assert await cluster.lateness(timers) <= (1_100 if news_lost else 100)
    await cluster.end()


@pytest.mark.promise("clean-stop")
async def test_what_was_in_the_store_before_is_in_time_without_any_news(clock):
    """The leaving node goes on for longer than the others need to see that its record is gone."""
    cluster = Cluster(clock, DeafStore)
    a = cluster.start("a")
    timers = await create_many(a, 150, 20_000, random.Random(2))
    timers = [timer for timer in timers if timer.execute_at > clock.now() + 9_000]
    b = cluster.start("b")
    await cluster.run(10_500)  # the next heartbeat of a is not near
    await cluster.stop(b)
    await cluster.run(12_000)
    assert b.sent
    assert await cluster.lateness(timers) <= 100
    await cluster.end()


async def test_the_record_is_gone_at_once_and_stays_away(clock):
    """A heartbeat that came later would make the others wait for nobody."""
    cluster = Cluster(clock, FlakyStore)
    a, b = cluster.start("a"), cluster.start("b")
    await cluster.run(5_000)
    stopping = asyncio.create_task(b.engine.stop(25))
    await settle()
    assert [record.name for record in await cluster.memory.records(NODE_KIND)] == ["a"]
    await settle()
    assert len(a.engine.members.shards) == 4096
    assert not stopping.done()
    for _ in range(300):
        await cluster.run(10)
        assert [record.name for record in await cluster.memory.records(NODE_KIND)] == ["a"]
    await stopping
    await cluster.end()


async def test_a_handover_takes_about_a_heartbeat_and_none_when_alone(clock):
    """Of the time that the drain may take, it takes half at most."""
    cluster = Cluster(clock, FlakyStore)
    a, b, c = (cluster.start(name) for name in "abc")
    await cluster.run(6_000)
    assert await cluster.stop(c) == pytest.approx(2_500, abs=20)
    assert await cluster.stop(b, drain_for=0.2) == pytest.approx(100, abs=20)
    assert await cluster.stop(a) <= 20


@pytest.mark.promise("clean-stop")
async def test_what_is_handed_back_is_started_by_the_others_at_once(clock):
    """A callback that hangs past the drain is another node's next attempt, without a poll."""
    cluster = Cluster(clock, FlakyStore)
    a, b = cluster.start("a"), cluster.start("b")
    await cluster.run(5_000)
    b.sender.hold = asyncio.Event()
    timer = await b.create()
    await settle()
    assert b.sent == [(timer.id, 1)]
    await cluster.stop(b, drain_for=4.4)  # the next poll of a is not near
    await cluster.run(50)
    assert a.sent == [(timer.id, 2)]
    await cluster.end()


async def test_what_is_created_on_a_leaving_node_is_started_by_the_others(clock):
    """The last requests of a node are answered while it leaves, and after."""
    cluster = Cluster(clock, FlakyStore)
    cluster.start("a")
    b = cluster.start("b")
    await cluster.run(5_000)
    stopping = asyncio.create_task(b.engine.stop(25))
    await cluster.run(1_000)
    timers = await create_many(b, 50, 4_000, random.Random(4))
    await cluster.run(6_000)
    assert stopping.done()
    await stopping
    assert sorted(cluster.sent) == sorted((timer.id, 1) for timer in timers)
    assert await cluster.lateness(timers) <= 100
    await cluster.end()


@pytest.mark.promise("clean-stop")
@pytest.mark.slow
async def test_a_rolling_restart_under_load_makes_no_timer_late(clock):
    """Each node in turn is replaced by a new one, while timers are created on the others."""
    cluster = Cluster(clock, FlakyStore)
    chance = random.Random(5)
    nodes = [cluster.start(name) for name in "abc"]
    await cluster.run(6_000)
    timers = await create_many(nodes[0], 100, 30_000, chance)
    for number, node in enumerate(list(nodes)):
        nodes.remove(node)
        stopping = asyncio.create_task(cluster.stop(node))
        while not stopping.done():
            timers += await create_many(chance.choice(nodes), 1, 3_000, chance)
            await asyncio.sleep(0)
        await stopping
        nodes.append(cluster.start(f"new-{number}"))
        for _ in range(40):
            timers += await create_many(chance.choice(nodes), 1, 3_000, chance)
            await cluster.run(50)
    await cluster.run(31_000)
    assert len(timers) > 300
    assert sorted(cluster.sent) == sorted((timer.id, 1) for timer in timers)
    assert await cluster.lateness(timers) <= 100
    assert all(node.sent for node in cluster.all)
    await cluster.end()
