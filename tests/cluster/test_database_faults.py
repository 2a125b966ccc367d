"""Three nodes under load while their database fails them: every promise holds.

Each test puts its fault to the cluster ten times, and has the whole history checked.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.campaign import Campaign, under_load
from tests.cluster.conftest import POSTGRES
from tests.cluster.nodes import Node
from tests.cluster.proxy import Proxy, running_proxy
from tests.cluster.waiting import until
from tests.servers.fixtures import OwnPostgres
from tests.servers.postgres import PostgresServer
from tests.system.service import eventually

TIMES = 10
pytestmark = pytest.mark.slow


@pytest.fixture
def server(own_postgres: OwnPostgres) -> Iterator[PostgresServer]:
    """A server of the test's own."""
    return own_postgres(POSTGRES)


def proxies(campaign: Campaign) -> list[Proxy]:
    return [node.proxy for node in campaign.nodes if node.proxy]


async def no_longer_ready(node: Node) -> None:
    """Wait until a node says that it cannot do its work."""

    async def has_noticed() -> bool:
        return not await node.is_ready()

    await eventually(has_noticed, f"{node.log} to say that it is not ready")


async def test_restart(tmp_path: Path, server: PostgresServer):
    """The server crashes and recovers, as by `pg_ctl restart -m immediate`."""
    async with under_load(tmp_path, server.url(), seed=5) as campaign:
        for n in range(TIMES):
            await campaign.load.rush(campaign.nodes[n % 3])
            with campaign.fault("restart"):
                await asyncio.to_thread(server.restart_immediate)
                await campaign.cluster.ready()
            await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.failed > 0


async def test_lost_answers(tmp_path: Path, server: PostgresServer):
    """The connection is cut after the server committed, and before the node hears of it."""
    async with under_load(tmp_path, server.url(), seed=6, proxied=True) as campaign:
        for n in range(TIMES):
            node, proxy = campaign.nodes[n % 3], proxies(campaign)[n % 3]
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
    assert sum(proxy.dropped for proxy in proxies(campaign)) >= 5 * TIMES


async def test_unreachable_from_one_node(tmp_path: Path, server: PostgresServer):
    """One node is cut off from the database: refused, or without any answer, by turns."""
    async with under_load(tmp_path, server.url(), seed=7, proxied=True) as campaign:
        for n in range(TIMES):
            node, proxy = campaign.nodes[n % 3], proxies(campaign)[n % 3]
            await campaign.load.rush(node)
            with campaign.fault("unreachable", node):
                if n % 2:
                    proxy.stall()
                else:
                    proxy.refuse()
                    proxy.cut()
                await no_longer_ready(node)
                proxy.flow()
                await proxy.accept()
                await campaign.cluster.ready()
            await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.failed > 0


async def test_change_of_address(tmp_path: Path, server: PostgresServer):
    """The database is gone from its address and comes back at another, as in a failover."""
    async with (
        running_proxy("127.0.0.1", server.port) as one,
        running_proxy("127.0.0.1", server.port) as other,
        under_load(tmp_path, server.url(), seed=8, proxied=True) as campaign,
    ):
        for n in range(TIMES):
            new, old = (one, other) if n % 2 else (other, one)
            await campaign.load.rush(campaign.nodes[n % 3])
            with campaign.fault("change of address"):
                old.refuse()
                old.cut()
                for node in campaign.nodes if n else []:
                    await no_longer_ready(node)
                await new.accept()
                for proxy in proxies(campaign):
                    proxy.move_to("127.0.0.1", new.port)
                await campaign.cluster.ready()
            await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.failed > 0
    assert min(one.connected, other.connected) > 0
