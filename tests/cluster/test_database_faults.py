"""Nodes under load while their database fails them: every promise holds.

Each test puts its fault to the cluster several times, and has the whole history checked.
"""

import asyncio
from pathlib import Path

import pytest

from tests.cluster.campaign import Campaign, under_load
from tests.cluster.conftest import EACH_STORE, POSTGRES, SERVERS, Extent, OwnDatabase, on
from tests.cluster.nodes import Node
from tests.cluster.proxy import Proxy, running_proxy
from tests.cluster.wires import wire_of
from tests.waiting import eventually, until

PAUSE = 10.0  # seconds

pytestmark = pytest.mark.slow


def proxies(campaign: Campaign) -> list[Proxy]:
    return [node.proxy for node in campaign.nodes if node.proxy]


async def no_longer_ready(node: Node) -> None:
    """Wait until a node says that it cannot do its work."""

    async def has_noticed() -> bool:
        return not await node.is_ready()

    await eventually(has_noticed, f"{node.log} to say that it is not ready")


@pytest.mark.promise("never-lost", "failing-store")
@pytest.mark.parametrize("own_database", on(*EACH_STORE, of=SERVERS), indirect=True)
async def test_crash(tmp_path: Path, own_database: OwnDatabase, extent: Extent):
    """Every promise holds while the server is killed, and started again on what its disk had."""
    server, url = own_database
    async with under_load(tmp_path, url, seed=5, count=extent.nodes) as campaign:
        for n in range(extent.times):
            await campaign.load.rush(campaign.node(n))
            # The first writes of a server on the JVM may take a second and more, so that claims run
            # out: the fault is over when what it left outstanding has arrived.
            with campaign.fault("crash"):
                await asyncio.to_thread(server.crash)
                await asyncio.to_thread(server.start)
                await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.touched > 0


@pytest.mark.parametrize("own_database", on(*EACH_STORE, of=SERVERS), indirect=True)
async def test_pause(tmp_path: Path, own_database: OwnDatabase, extent: Extent):
    """The server hangs for ten seconds with all its connections, and goes on where it was."""
    server, url = own_database
    async with under_load(tmp_path, url, seed=9, count=extent.nodes) as campaign:
        for n in range(extent.times // 3):
            await campaign.load.rush(campaign.node(n))
            with campaign.fault("pause"):
                server.pause()
                await asyncio.sleep(PAUSE)
                server.resume()
                await campaign.cluster.ready()
            await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.failed > 0


@pytest.mark.promise("failing-store")
@pytest.mark.parametrize("own_database", on(*EACH_STORE, of=SERVERS), indirect=True)
async def test_lost_answers(tmp_path: Path, own_database: OwnDatabase, extent: Extent):
    """Every promise holds while connections are cut after the commit and before its answer."""
    async with under_load(
        tmp_path, own_database.url, seed=6, count=extent.nodes, is_proxied=True
    ) as campaign:
        for n in range(extent.times):
            node, proxy = campaign.node(n), proxies(campaign)[n % extent.nodes]
            enough = proxy.dropped + 5
            with campaign.fault("lost answers", node):
                proxy.drop_answers()
                await campaign.load.rush(node)
                await until(
                    lambda proxy=proxy, enough=enough: proxy.dropped >= enough, "lost answers"
                )
                proxy.pass_answers()
                await campaign.cluster.ready()
            await campaign.recovered()
    assert campaign.violations() == []
    assert sum(proxy.dropped for proxy in proxies(campaign)) >= 5 * extent.times


@pytest.mark.parametrize("own_database", on(POSTGRES, of=SERVERS), indirect=True)
async def test_unreachable_from_one_node(tmp_path: Path, own_database: OwnDatabase, extent: Extent):
    """One node is cut off from the database: refused, or without any answer, by turns."""
    async with under_load(
        tmp_path, own_database.url, seed=7, count=extent.nodes, is_proxied=True
    ) as campaign:
        for n in range(extent.times):
            node, proxy = campaign.node(n), proxies(campaign)[n % extent.nodes]
            await campaign.load.rush(node)
            with campaign.fault("unreachable", node):
                if n % 2:
                    proxy.stall()
                else:
                    proxy.refuse()
                    proxy.cut()
                await no_longer_ready(node)
                proxy.flow()
                proxy.accept()
                await campaign.cluster.ready()
            await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.failed > 0


@pytest.mark.parametrize("own_database", on(POSTGRES, of=SERVERS), indirect=True)
async def test_change_of_address(tmp_path: Path, own_database: OwnDatabase, extent: Extent):
    """The database is gone from its address and comes back at another, as in a failover."""
    server, url = own_database
    watcher = wire_of(url).watcher
    async with (
        running_proxy(server.port, watcher) as one,
        running_proxy(server.port, watcher) as other,
        under_load(tmp_path, url, seed=8, count=extent.nodes, is_proxied=True) as campaign,
    ):
        for n in range(extent.times):
            new, old = (one, other) if n % 2 else (other, one)
            await campaign.load.rush(campaign.node(n))
            with campaign.fault("change of address"):
                old.refuse()
                old.cut()
                for node in campaign.nodes if n else []:
                    await no_longer_ready(node)
                new.accept()
                for proxy in proxies(campaign):
                    proxy.move_to("127.0.0.1", new.port)
                await campaign.cluster.ready()
            await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.failed > 0
    assert min(one.connected, other.connected) > 0
