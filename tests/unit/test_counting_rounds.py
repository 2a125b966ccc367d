"""Rounds in which timers of each limited tenant are counted, whatever becomes of one of them."""

import asyncio

import pytest

from duetime.clock import sleep
from duetime.errors import StoreUnavailable, Unavailable
from duetime.nodes import NodeRecord
from duetime.tenancy.meter import Meter
from duetime.tenancy.quotas import Quotas
from tests.unit.meters import Cluster
from tests.waiting import settle

pytestmark = pytest.mark.promise("quotas-hold")


class Counting:
    """A node whose counts take their time, and fail, as they are told to."""

    def __init__(self, tenants: str) -> None:
        self.cluster = Cluster(1)
        [self.meter] = self.cluster.meters.values()
        self.meter._rules.limited = dict.fromkeys(tenants, Quotas(pending=10))
        self.began_at: list[tuple[str, float]] = []
        self.takes: dict[str, float] = {}
        self.failing: dict[str, Exception] = {}
        self._real = self.cluster.store.store.count
        self._started_at = self.cluster.clock.monotonic()
        self.cluster.store.store.count = self._count

    @property
    def counted(self) -> list[str]:
        return [tenant for tenant, _ in self.began_at]

    async def run(self, seconds: int) -> None:
        """Go on for so long, as a loop of the engine does."""
        running = asyncio.create_task(self._keep_on(self.meter))
        for _ in range(2 * seconds):
            await settle()
            self.cluster.clock.advance(500)
        running.cancel()

    async def _keep_on(self, meter: Meter) -> None:
        while True:
            try:
                pause = await meter.step()
            except Exception:  # noqa: BLE001 - as a loop does
                pause = 5.0
            await sleep(self.cluster.clock, pause)

    async def _count(self, tenant: str):
        self.began_at.append((tenant, self.cluster.clock.monotonic() - self._started_at))
        if takes := self.takes.get(tenant, self.takes.get("all", 0.0)):
            await sleep(self.cluster.clock, takes)
        if tenant in self.failing:
            raise self.failing[tenant]
        return await self._real(tenant)


async def test_a_tenant_that_cannot_be_counted_does_not_stop_the_others():
    """All others are, and as seldom as ever; then it is told."""
    cluster = Cluster(1)
    [meter] = cluster.meters.values()
    meter._rules.limited = dict.fromkeys("abcd", Quotas(pending=10))
    real, counted = cluster.store.store.count, []

    async def count(tenant):
        counted.append(tenant)
        if tenant == "c":
            raise StoreUnavailable("too many")
        return await real(tenant)

    cluster.store.store.count = count
    for _ in range(2):
        with pytest.raises(Unavailable):
            await meter.step()
        await meter.step()
        assert sorted(counted) == ["a", "b", "c", "d"]
        counted.clear()
        cluster.clock.advance(10_000)


@pytest.mark.parametrize("takes", [19.5, 20.5, 21.5, 30, 41.5, 42.5])
async def test_slow_counts_follow_each_other(takes):
    """Each is made once in a round, however it falls on the looks at it; then all of them rest."""
    counting = Counting("ab")
    counting.takes["all"] = takes
    await counting.run(600)
    [first, second] = counting.began_at
    assert {first[0], second[0]} == {"a", "b"}
    assert takes <= second[1] - first[1] <= takes + 2


async def test_an_outage_is_followed_by_a_count():
    """The time that failures took is no reason to rest: what was written meanwhile is unknown."""
    counting = Counting("a")
    counting.takes["a"], counting.failing["a"] = 30, StoreUnavailable("outage")
    await counting.run(40)
    counting.takes.clear()
    counting.failing.clear()
    await counting.run(60)
    assert 30 < counting.began_at[1][1] < 60


@pytest.mark.parametrize("trouble", ["an unreadable row", "hangs"])
async def test_a_tenant_whose_count_goes_wrong_stops_no_others(trouble):
    """Whatever is wrong with it, the others are counted again and again."""
    counting = Counting("abc")
    if trouble == "hangs":
        counting.takes["b"] = 1e9
    else:
        counting.failing["b"] = ValueError(trouble)
    await counting.run(600)
    assert min(counting.counted.count(tenant) for tenant in "ac") > 3


async def test_who_leaves_during_a_round_is_not_forgotten_with_it():
    """Its growth counts on for those tenants that were counted before it was told."""
    cluster = Cluster(2)
    first, second = cluster.meters.values()
    for meter in (first, second):
        meter._rules.limited = dict.fromkeys("ab", Quotas(pending=10))
    await first.step()
    cluster.beat()
    cluster.clock.advance(10_000)
    gate, real = asyncio.Event(), cluster.store.store.count

    async def count(tenant):
        if tenant == "a":
            await gate.wait()
        return await real(tenant)

    cluster.store.store.count = count
    counting = asyncio.create_task(first.step())
    await settle()
    second._waiting.grow("b", 8, cluster.clock.monotonic())
    cluster.beat()
    first.hear({})
    gate.set()
    await counting
    assert cluster.believed("n0", "b") == 8
    cluster.clock.advance(10_000)
    await first.step()
    assert first._waiting._told == {}


@pytest.mark.promise("bounded-memory")
@pytest.mark.parametrize("tenants", ["", "ab"])
async def test_nodes_that_have_gone_are_forgotten(tenants):
    """Also where nothing is limited, and where a tenant can never be counted."""
    counting = Counting(tenants)
    counting.failing["b"] = StoreUnavailable("too many")
    for number in range(100):
        counting.meter.hear({f"host-{number}": NodeRecord()})
        counting.cluster.clock.advance(3_600_000)
        try:
            await counting.meter.step()
        except Unavailable:
            assert tenants
    assert len(counting.meter._waiting._told) < 5
