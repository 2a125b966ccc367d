"""The meter in a cluster: how the nodes share a limit, and what they know of each other."""

import asyncio

import pytest

from duetime.errors import TooManyRequests, Unavailable
from duetime.nodes import NodeRecord
from duetime.stores.memory import MemoryStore
from duetime.tenancy.bucket import LONGEST_WAIT
from duetime.tenancy.meter import Meter
from duetime.tenancy.quotas import Quotas
from duetime.tenancy.rules import Rules
from duetime.tenancy.waiting import COUNT_EVERY, MOST_TOLD, Counted
from duetime.testing import FakeClock, FlakyStore
from tests.factories import completed, insert, make_timer
from tests.waiting import settle

pytestmark = pytest.mark.promise("quotas-hold")

BEAT = 2_000


class Cluster:
    """Some meters whose nodes tell each other with every heartbeat."""

    def __init__(self, nodes: int, **quotas: float) -> None:
        self.clock = FakeClock()
        self.store = FlakyStore(MemoryStore())
        self.meters = {}
        for number in range(nodes):
            rules = Rules(self.store, self.clock)
            rules.limited = {"default": Quotas(**quotas)}
            self.meters[f"n{number}"] = Meter(rules, self.store, self.clock)

    def beat(self) -> None:
        """A heartbeat of each node, seen by all others."""
        told = {
            name: NodeRecord(demand=meter.demand(), growth=meter.growth())
            for name, meter in self.meters.items()
        }
        for name, meter in self.meters.items():
            meter.hear({other: record for other, record in told.items() if other != name})

    async def admitted(self, name: str, asked: int) -> int:
        """How many of so many are let in at a node."""
        count = 0
        for _ in range(asked):
            try:
                await self.meters[name].admit(make_timer())
            except TooManyRequests:
                continue
            count += 1
        return count

    async def load(self, seconds: int, **per_second: int) -> int:
        """How many are let in while the nodes are asked for so many per second each."""
        count = 0
        for tenth in range(seconds * 10):
            for name, rate in per_second.items():
                count += await self.admitted(name, rate // 10)
            self.clock.advance(100)
            if tenth % (BEAT // 100) == 0:
                self.beat()
        return count


@pytest.mark.parametrize(
    "load",
    [
        {"n0": 1000, "n1": 1000, "n2": 1000},
        {"n0": 1000},
        {"n0": 1000, "n1": 100},
        {"n0": 200, "n1": 50, "n2": 1000},
    ],
)
async def test_a_steady_load_is_held_to_the_limit(load):
    """However unevenly it falls on the nodes: at most the limit, and at least nine tenths of it."""
    cluster = Cluster(3, creates_per_second=100)
    await cluster.load(8, **load)
    admitted = await cluster.load(20, **load)
    assert 0.9 * 2_000 <= admitted <= 2_000 + 3


async def test_a_load_that_moves_overshoots_for_a_heartbeat_only():
    """The new node begins with its even part, and the old one's share is its own soon."""
    cluster = Cluster(3, creates_per_second=100)
    await cluster.load(10, n0=1000)
    moved = await cluster.load(4, n1=1000)
    assert moved <= 2 * 400
    await cluster.load(6, n1=1000)
    assert 0.9 * 1_000 <= await cluster.load(10, n1=1000) <= 1_000 + 3


async def test_less_than_the_limit_passes_everywhere():
    """Nobody is refused while the cluster is asked for less than half of it."""
    cluster = Cluster(2, creates_per_second=100)
    assert await cluster.load(10, n0=20, n1=20) == 400


@pytest.mark.parametrize("pace", [0.001, 5e-324])
async def test_nobody_is_told_to_wait_for_ever(pace):
    """A small share of a slow pace is long in coming: an hour is the most that is told."""
    cluster = Cluster(20, creates_per_second=pace)
    await cluster.load(2, n0=10)
    cluster.beat()
    assert await cluster.admitted("n1", 5) == 1
    with pytest.raises(TooManyRequests) as refused:
        await cluster.meters["n1"].admit(make_timer())
    assert refused.value.retry_after == LONGEST_WAIT
    assert str(refused.value).endswith("try again in 3600 s")


async def test_pending_is_counted_over_all_nodes():
    """What others let in is known with their next heartbeat; what ended makes room."""
    cluster = Cluster(2, pending=10)
    assert await cluster.admitted("n0", 6) == 6
    cluster.beat()
    assert await cluster.admitted("n1", 9) == 9  # its first count finds nothing in the store yet
    cluster.beat()
    assert await cluster.admitted("n0", 1) == 0


@pytest.mark.parametrize("nodes", [1, 2, 5])
async def test_a_burst_on_all_nodes_at_once(nodes):
    """Each lets in as many as are free, for one heartbeat: N times that in all, and no more."""
    cluster = Cluster(nodes, pending=20)
    await insert(cluster.store, *(make_timer() for _ in range(5)))
    asked = [cluster.admitted(name, 1) for _ in range(150) for name in cluster.meters]
    assert sum(await asyncio.gather(*asked)) == nodes * 15
    cluster.beat()
    asked = [cluster.admitted(name, 1) for _ in range(150) for name in cluster.meters]
    assert sum(await asyncio.gather(*asked)) == 0


async def test_a_burst_into_a_group_does_not_run_over_its_tenant():
    """What is free in the tenant may be taken while the group is counted."""
    cluster = Cluster(1)
    [meter] = cluster.meters.values()
    meter._rules.limited = {"default": Quotas(pending=10), "default/g": Quotas(pending=5)}
    grouped = [make_timer(group="g") for _ in range(5)]
    await insert(cluster.store, *grouped, *(make_timer() for _ in range(4)))
    await meter.step()
    await cluster.store.remove(grouped)
    await insert(cluster.store, *(make_timer() for _ in range(5)))
    cluster.clock.advance(1_000)
    asked = [meter.admit(make_timer(group="g")) for _ in range(20)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert answers.count(None) == 1


async def test_what_is_told_is_added_to_what_was_counted():
    """From the count on, and not what went before it."""
    cluster = Cluster(2, pending=10)
    await insert(cluster.store, *(make_timer() for _ in range(4)))
    assert await cluster.admitted("n0", 3) == 3
    assert await cluster.admitted("n1", 2) == 2
    cluster.beat()
    assert await cluster.admitted("n0", 9) == 1  # 4 were there, 3 and 2 came
    done = completed(make_timer())
    cluster.meters["n1"].ended(done)
    cluster.beat()
    assert await cluster.admitted("n0", 9) == 1


async def test_a_refusal_is_no_older_than_a_moment():
    """It is counted before it is refused, if counting is cheap enough for that."""
    cluster = Cluster(1, pending=1)
    timer = make_timer()
    await insert(cluster.store, timer)
    assert await cluster.admitted("n0", 1) == 0
    await cluster.store.remove([timer])
    assert await cluster.admitted("n0", 1) == 0
    cluster.clock.advance(1_000)
    assert await cluster.admitted("n0", 1) == 1


async def test_refusals_do_not_ask_the_store_each_time():
    """A tenant at its limit costs the store nothing."""
    cluster = Cluster(1, pending=0, creates_per_second=1)
    await cluster.admitted("n0", 1)
    cluster.store.calls.clear()
    assert await cluster.admitted("n0", 1_000) == 0
    assert cluster.store.calls == []


async def test_counting_goes_on_by_itself_and_not_too_often():
    """What drifts apart is put right; a slow count has long rests."""
    cluster = Cluster(1, pending=5)
    [meter] = cluster.meters.values()
    assert await meter.step() == COUNT_EVERY
    assert cluster.store.calls == ["count"]
    await meter.step()
    assert cluster.store.calls == ["count"]
    cluster.clock.advance(10_000)
    real, took = cluster.store.store.count, 3_000

    async def slow(tenant):
        cluster.clock.advance(took)
        return await real(tenant)

    cluster.store.store.count = slow
    await meter.step()
    for _ in range(14):
        cluster.clock.advance(10_000)
        await meter.step()
    assert cluster.store.calls == ["count"] * 2
    cluster.clock.advance(10_000)
    await meter.step()
    assert cluster.store.calls == ["count"] * 3


@pytest.mark.promise("bounded-memory")
async def test_what_has_no_quota_any_more_is_forgotten():
    """Buckets, counts and growth go with it."""
    cluster = Cluster(1, pending=5, creates_per_second=5)
    [meter] = cluster.meters.values()
    await cluster.admitted("n0", 3)
    meter._rules.limited = {}
    await meter.step()
    waiting = meter._waiting
    assert (meter._buckets, waiting._growth, waiting._counted) == ({}, {}, {})


async def test_demand_fades():
    """A node of which nothing is asked any more tells nothing, and the others have it all."""
    cluster = Cluster(2, creates_per_second=100)
    await cluster.load(4, n0=1000)
    for _ in range(40):
        cluster.clock.advance(BEAT)
        cluster.beat()
    assert cluster.meters["n0"].demand() == {}


async def test_many_that_want_to_know_share_a_count():
    """A tenant at its limit under full load has its timers counted once, not once a request."""
    cluster = Cluster(1, pending=0)
    [meter] = cluster.meters.values()
    gate, real = asyncio.Event(), cluster.store.store.count

    async def slow(tenant):
        await gate.wait()
        return await real(tenant)

    cluster.store.store.count = slow
    asked = [asyncio.create_task(cluster.admitted("n0", 1)) for _ in range(200)]
    asked += [asyncio.create_task(meter.counts("default")) for _ in range(20)]
    await settle()
    gate.set()
    await asyncio.gather(*asked)
    assert cluster.store.calls == ["count"]


async def test_a_count_that_fails_is_no_failure_of_nobody_knows_what():
    """Nothing was written, so it is said so."""
    cluster = Cluster(1, pending=1)
    cluster.store.failing = "before"
    with pytest.raises(Unavailable):
        await cluster.meters["n0"].admit(make_timer())
    cluster.store.failing = None
    assert await cluster.admitted("n0", 2) == 1


@pytest.mark.promise("bounded-memory")
async def test_heartbeats_stay_small_whatever_quotas_there_are():
    """Of very many, those are told that are busiest, or nearest to their limits."""
    cluster = Cluster(2)
    first, second = cluster.meters.values()
    names = [f"default/g{number}" for number in range(MOST_TOLD * 3)]
    for meter in (first, second):
        meter._rules.limited = dict.fromkeys(names, Quotas(pending=1_000, creates_per_second=1e6))
    for number, name in enumerate(names):
        for _ in range(1 + number % 3):
            await first.admit(make_timer(group=name.partition("/")[2]))
    cluster.clock.advance(1_000)
    assert len(first.demand()) == len(first.growth()) == MOST_TOLD
    assert set(first.growth().values()) == {3}
    cluster.beat()
    full = next(iter(first.growth()))
    assert second._waiting._now(full, Counted(0, {}, 0, 0)) == 3
    untold = next(name for name in names if name not in first.growth())
    assert second._waiting._now(untold, Counted(7, {"n0": 2}, 0, 0)) == 7


async def test_a_rate_is_not_measured_over_a_moment():
    """Heartbeats that follow each other closely do not make it jump."""
    cluster = Cluster(1, creates_per_second=1e6)
    [meter] = cluster.meters.values()
    await cluster.admitted("n0", 100)
    cluster.clock.advance(1)
    assert meter.demand() == {}
    cluster.clock.advance(999)
    assert 0 < meter.demand()["default"] <= 100
