"""Nodes under load on a MongoDB replica set of three, whose primary dies or hangs: others go on.

Nobody restarts anything: nodes find the member that was elected, and every promise holds.
"""

import asyncio
from pathlib import Path

import pytest

from tests.cluster.campaign import under_load
from tests.cluster.conftest import Extent
from tests.servers.mongodb_set import MongodbSet

pytestmark = [pytest.mark.slow, pytest.mark.long]


async def test_primaries_are_killed(tmp_path: Path, own_mongodb_set: MongodbSet, extent: Extent):
    """One primary after the other is ended by kill -9, and comes back as one who follows."""
    servers = own_mongodb_set
    async with under_load(tmp_path, servers.url(), seed=10, count=extent.nodes) as campaign:
        for n in range(extent.times):
            await campaign.load.rush(campaign.node(n))
            with campaign.fault("primary killed"):
                old = await asyncio.to_thread(servers.primary)
                await asyncio.to_thread(old.crash)
                await asyncio.to_thread(servers.primary, besides=old)
                await campaign.cluster.ready()
            await campaign.recovered()
            await asyncio.to_thread(old.start)
            await asyncio.to_thread(servers.complete)
    assert campaign.violations() == []
    assert campaign.touched > 0


async def test_primaries_hang(tmp_path: Path, own_mongodb_set: MongodbSet, extent: Extent):
    """A primary stands still until it has been replaced, and then goes on where it was."""
    servers = own_mongodb_set
    async with under_load(tmp_path, servers.url(), seed=11, count=extent.nodes) as campaign:
        for n in range(extent.times):
            await campaign.load.rush(campaign.node(n))
            with campaign.fault("primary hangs"):
                old = await asyncio.to_thread(servers.primary)
                old.pause()
                await asyncio.to_thread(servers.primary, besides=old)
                await campaign.cluster.ready()
                old.resume()
                await asyncio.to_thread(servers.complete)
                await campaign.cluster.ready()
            await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.touched > 0
