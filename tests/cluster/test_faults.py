"""Nodes under a load of creates, changes and fires: every promise holds if nodes fail.

Each test puts its fault to the cluster several times, in the middle of requests and deliveries, and
has the whole history checked.
"""

import time
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.campaign import under_load
from tests.cluster.checker import lateness
from tests.cluster.conftest import EACH_STORE, POSTGRES, Extent, on
from tests.cluster.nodes import CLAIM_TTL, Node
from tests.waiting import eventually, until

pytestmark = pytest.mark.slow


@pytest.mark.promise("never-lost", "never-early", "cancel-holds")
@pytest.mark.promise("one-node-per-attempt", "dead-inherited")
@pytest.mark.parametrize("database_url", on(*EACH_STORE), indirect=True)
async def test_kill(tmp_path: Path, database_url: str, extent: Extent):
    """Every promise holds while one node after the other is ended by kill -9."""
    async with under_load(tmp_path, database_url, seed=1, count=extent.nodes) as campaign:
        for n in range(extent.times):
            node = campaign.node(n)
            await campaign.load.rush(node)
            with campaign.fault("kill", node):
                await node.kill()
            await campaign.busy()
            await node.start()
            await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.doubtful > 0
    assert campaign.retaken > 0


@pytest.mark.promise("stalled-sends-nothing")
@pytest.mark.parametrize("database_url", on("sqlite", POSTGRES), indirect=True)
async def test_freeze(tmp_path: Path, database_url: str, extent: Extent):
    """A node that stands still until its claims have run out sends none of them when it goes on."""
    async with under_load(tmp_path, database_url, seed=2, count=extent.nodes) as campaign:
        for n in range(extent.times):
            node = campaign.node(n)
            await campaign.load.rush(node)
            # One that is frozen in the middle of a transaction keeps SQLite's file to itself: then
            # the others cannot write either, and their claims run out like its own.
            hit = campaign.nodes if database_url.startswith("sqlite") else [node]
            with campaign.fault("freeze", *hit):
                node.freeze()
                began = time.monotonic()
                await until(
                    lambda began=began: time.monotonic() - began > 1.5 * CLAIM_TTL,
                    "its claims to run out",
                )
                node.thaw()
            await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.doubtful > 0
    assert campaign.retaken > 0


@pytest.mark.promise("never-lost")
@pytest.mark.parametrize("database_url", on("sqlite", POSTGRES), indirect=True)
async def test_kill_of_all(tmp_path: Path, database_url: str, extent: Extent):
    """Every promise holds when all nodes are ended by kill -9 at once."""
    async with under_load(tmp_path, database_url, seed=3, count=extent.nodes) as campaign:
        for n in range(extent.times):
            await campaign.load.rush(campaign.node(n))
            with campaign.fault("kill of all", *campaign.nodes):
                await campaign.cluster.kill()
            await campaign.cluster.start()
            await campaign.busy()
            await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.doubtful > 0
    assert campaign.retaken > 0


@pytest.mark.promise("one-node-per-attempt", "clean-stop")
@pytest.mark.parametrize("database_url", on("sqlite", POSTGRES), indirect=True)
async def test_rolling_restart(tmp_path: Path, database_url: str, extent: Extent):
    """One node after the other is stopped and started: nothing is late, nothing comes twice."""
    async with under_load(tmp_path, database_url, seed=4, count=extent.nodes) as campaign:
        for _ in range(extent.times):
            for node in campaign.nodes:
                assert await node.stop() == 0
                await node.start()
        await campaign.busy()
        # They have left: one that ends without doing so is listed as dead for ten times its TTL.
        for node in campaign.nodes:
            knows_nobody_else = partial(_knows_only, node, campaign.cluster.pids)
            await eventually(knows_nobody_else, "the others to be gone", within=5 * CLAIM_TTL)
    assert campaign.violations() == []  # a restart is no fault, and excuses nothing
    # Beside other tests, lateness tells of these; tests/engine/test_handover.py holds it always.
    if extent.is_undisturbed:
        assert lateness(campaign.history).worst <= 1_000


async def _knows_only(node: Node, pids: frozenset[int]) -> bool:
    nodes = (await node.call("GET", "/nodes")).envelope["data"]["nodes"]
    return {each["pid"] for each in nodes} == pids
