"""The meter in a cluster: how the nodes share a pace."""

import pytest

from duetime.errors import TooManyRequests
from duetime.tenancy.bucket import LONGEST_WAIT
from duetime.tenancy.quotas import Quotas
from tests.factories import make_timer
from tests.unit.meters import BEAT, Cluster

pytestmark = pytest.mark.promise("quotas-hold")


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


async def test_a_rate_is_not_measured_over_a_moment():
    """Heartbeats that follow each other closely do not make it jump."""
    cluster = Cluster(1, creates_per_second=1e6)
    [meter] = cluster.meters.values()
    await cluster.admitted("n0", 100)
    cluster.clock.advance(1)
    assert meter.demand() == {}
    cluster.clock.advance(999)
    assert 0 < meter.demand()["default"] <= 100


async def test_the_longest_wait_is_told():
    """Whoever comes back then is not refused by the other limit."""
    cluster = Cluster(1)
    [meter] = cluster.meters.values()
    meter._rules.limited = {
        "default": Quotas(creates_per_second=1),
        "default/default": Quotas(creates_per_second=0.01),
    }
    await meter.admit(make_timer())
    with pytest.raises(TooManyRequests) as refused:
        await meter.admit(make_timer())
    assert refused.value.retry_after == 100


async def test_every_node_knows_what_is_asked_of_all():
    """Also one of which nothing was asked; and nobody does once that is not limited any more."""
    cluster = Cluster(2, creates_per_second=100)
    await cluster.load(6, n0=50)
    told = {meter.asked_for("default") for meter in cluster.meters.values()}
    assert len(told) == 1
    assert 30 < told.pop() < 60
    for meter in cluster.meters.values():
        meter._rules.limited = {"default": Quotas(pending=5)}
        assert meter.asked_for("default") is None
        await meter.step()
        assert meter._buckets == {}
