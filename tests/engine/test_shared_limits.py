"""Limits in a cluster: what all nodes begin together stays within what docs/tenants.md says."""

import pytest

from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import Caller
from duetime.testing import FlakyStore
from tests.engine.conftest import Node, join
from tests.engine.limits import Watched, limit_group
from tests.waiting import settle

pytestmark = pytest.mark.promise("limits-hold")

TICK = 100  # milliseconds
BEAT = 2_000


class Cluster:
    """Nodes that take turns, each with its heartbeat at a time of its own."""

    def __init__(self, clock, names="abc"):
        self.clock = clock
        self.memory = MemoryStore()
        self.nodes = [Node(FlakyStore(self.memory), clock, name) for name in names]
        self.watched = Watched(*self.nodes)
        self._ticks = 0

    def add(self, name):
        node = Node(FlakyStore(self.memory), self.clock, name)
        self.watched._watch(node)
        self.nodes.append(node)
        return node

    async def run(self, seconds):
        """Let time pass; tells how many callbacks were begun."""
        before = len(self.watched.at)
        for _ in range(round(1000 * seconds / TICK)):
            self.clock.advance(TICK)
            self._ticks += 1
            for number, node in enumerate(self.nodes):
                # Those that have not joined look more often.
                every = BEAT if node.engine.members._has_joined else BEAT // 5
                if (self._ticks * TICK + 700 * number) % every < TICK:
                    await node.engine.members.step()
                await node.engine.reader.step()
                await node.engine.dispatcher.step()
            await settle()
            for node in self.nodes:
                await node.engine.committer.step()
        return len(self.watched.at) - before


@pytest.fixture
async def cluster(clock):
    cluster = Cluster(clock)
    await join(clock, *cluster.nodes)
    return cluster


async def backlog(cluster, count, **fields):
    for _ in range(count):
        await cluster.nodes[0].create(delay="4s", **fields)
    await cluster.run(4)


@pytest.mark.slow
async def test_three_nodes_together_keep_a_rate(cluster):
    """No more than the burst and what comes in time, and hardly less while there is enough."""
    await limit_group(cluster.nodes[0], per_second=20, burst=20)
    await cluster.run(2)
    await backlog(cluster, 900)
    first = len(cluster.watched.at)
    assert first <= 20 + 3
    begun = [await cluster.run(5) for _ in range(4)]
    assert max(begun) <= 100 * 1.05 + 20
    assert min(begun[1:]) >= 100 * 0.95
    assert sum(begun[1:]) <= 300 * 1.02


@pytest.mark.slow
async def test_a_node_that_has_all_there_is_gets_nearly_all_of_the_rate(cluster):
    """Shares go by demand: a small part is kept for those who may have something soon."""
    await limit_group(cluster.nodes[0], "one", per_second=20, burst=10)
    owner = cluster.nodes[1]
    shards = owner.engine.members.shards
    made = 0
    while made < 600:
        timer = await cluster.nodes[0].create(delay="4s", group="one")
        if timer.shard in shards:
            made += 1
        else:
            await cluster.nodes[0].service.cancel(Caller(timer.tenant), timer.id)
    await cluster.run(8)
    begun = await cluster.run(10)
    assert 200 * 0.95 <= begun <= 200 * 1.02


async def test_three_nodes_together_keep_a_concurrency(cluster):
    """The places are split without a rest that all take, or none."""
    await limit_group(cluster.nodes[0], concurrency=7)
    await cluster.run(2)
    await backlog(cluster, 300)
    cluster.watched.release.clear()
    for _ in range(60):
        await cluster.run(0.5)
        assert cluster.watched.under_way <= 7
        cluster.watched.release.set()
        await settle()
        cluster.watched.release.clear()
    assert cluster.watched.most <= 7
    assert len(cluster.watched.at) >= 60 * 5


async def test_with_fewer_places_than_nodes_each_has_one(cluster):
    """No node is left with timers that it never starts."""
    await limit_group(cluster.nodes[0], concurrency=1)
    await cluster.run(2)
    await backlog(cluster, 60)
    cluster.watched.release.clear()
    await cluster.run(1)
    assert cluster.watched.under_way <= 3
    cluster.watched.release.set()
    await cluster.run(10)
    assert len(cluster.watched.at) == 60


@pytest.mark.slow
async def test_a_node_that_comes_or_goes_costs_no_more_than_a_burst(cluster):
    """Its share goes to the others when they have seen it die, and comes back when it does."""
    await limit_group(cluster.nodes[0], per_second=20, burst=20)
    await cluster.run(2)
    await backlog(cluster, 1_500)
    await cluster.run(4)
    cluster.nodes.pop()
    while_dying = await cluster.run(16)
    assert 0.5 * 320 <= while_dying <= 320 + 20
    alone = await cluster.run(10)
    assert 0.95 * 200 <= alone <= 200 * 1.02
    cluster.add("d")
    coming = await cluster.run(10)
    assert 0.9 * 200 <= coming <= 200 + 20
    assert 0.95 * 200 <= await cluster.run(10) <= 200 * 1.03
