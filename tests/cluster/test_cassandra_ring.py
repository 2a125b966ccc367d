"""Three Cassandra servers with three copies: one may fail, and nothing is lost if two do.

No server keeps writes for another one that is away, so each has what it was there for, and no more.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from duetime.errors import StoreUnavailable
from duetime.stores.cassandra import fence, session
from duetime.stores.cassandra.address import Address
from duetime.stores.cassandra.store import CassandraStore
from tests.cluster.campaign import under_load
from tests.cluster.clerk import Clerk
from tests.factories import insert, make_timer
from tests.servers.cassandra import CassandraServer
from tests.servers.cassandra_ring import CassandraRing, only
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.long]

# Requests a second: three servers that start and agree take most of what two cores have.
RATE = 15

OpenStore = Callable[[str], Awaitable[CassandraStore]]


@pytest.fixture
def ring(cassandra_ring: CassandraRing) -> Iterator[CassandraRing]:
    """The ring; whatever a test does to its servers is undone."""
    yield cassandra_ring
    cassandra_ring.restore()


@pytest.fixture
def url(ring: CassandraRing) -> str:
    """A keyspace that is not there yet."""
    return ring.url(f"test_{uuid.uuid4().hex}")


@pytest.fixture
async def open_store() -> AsyncIterator[OpenStore]:
    """Opens stores, and closes them after the test."""
    opened: list[CassandraStore] = []

    async def open_one(url: str) -> CassandraStore:
        store = CassandraStore(Address.parse(url))
        opened.append(store)
        await store.migrate()
        return store

    yield open_one
    await asyncio.gather(*(store.close() for store in opened))


async def test_one_is_killed(ring: CassandraRing, url: str, open_store: OpenStore):
    """Whichever it is, the other two go on, and have all that was acknowledged."""
    clerk = Clerk(await open_store(url))
    for server in ring.servers:
        async with clerk.busy():
            await clerk.has_written()
            await asyncio.to_thread(server.crash)
            await clerk.has_written(300)
        assert await clerk.complaints(clerk.store) == []
        assert await clerk.complaints(await open_store(url)) == []
        await asyncio.to_thread(ring.restore)


async def test_two_hang(
    ring: CassandraRing, url: str, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
):
    """Every call ends in time; what failed for sure never turns up; and all goes on afterwards."""
    monkeypatch.setattr(session.Session.__init__, "__defaults__", (3.0,))
    monkeypatch.setattr(fence, "SETTLE_WITHIN", 1.0)
    clerk = Clerk(await open_store(url))
    kept = make_timer()
    await insert(clerk.store, kept)
    for n in range(3):
        hanging = [server for server in ring.servers if server is not ring.servers[n]]
        async with clerk.busy():
            await clerk.has_written()
            for server in hanging:
                server.pause()
            failures = clerk.failed + clerk.unknown

            async def have_failed(enough: int = failures + 5) -> bool:
                return clerk.failed + clerk.unknown >= enough

            await eventually(have_failed, "writes to fail", within=60)
            async with asyncio.timeout(20):
                for call in (clerk.store.get([kept.id]), clerk.store.records("node")):
                    with pytest.raises(StoreUnavailable):
                        await call
            for server in hanging:
                server.resume()
            await clerk.has_written()
        assert await clerk.complaints(clerk.store) == []
        assert await clerk.complaints(await open_store(url)) == []


async def test_another_is_killed_once_one_is_back(
    ring: CassandraRing, url: str, open_store: OpenStore
):
    """What one has missed, the other that is left knows: each answer is right."""
    clerk = Clerk(await open_store(url))
    for server, next_one in zip(ring.servers, ring.servers[1:], strict=False):
        if server.is_running:
            await asyncio.to_thread(server.crash)
        async with clerk.busy():
            await clerk.has_written(200)
        await asyncio.to_thread(ring.restore)
        await asyncio.to_thread(next_one.crash)
        assert await clerk.complaints(await open_store(url)) == []
        async with clerk.busy():
            await clerk.has_written()
    assert await clerk.complaints(await open_store(url)) == []


@pytest.mark.parametrize("_", range(5))
async def test_several_set_it_up_at_once(
    ring: CassandraRing, url: str, open_store: OpenStore, _: int
):
    """On an empty cluster, through whichever servers: they make the same tables."""
    keyspace = url.rpartition("/")[2]
    stores = await asyncio.gather(*(open_store(url) for _ in range(3)))
    for server in ring.servers:
        assert await asyncio.to_thread(ids_of_tables, server, keyspace) == (
            await asyncio.to_thread(ids_of_tables, ring.servers[0], keyspace)
        )
        assert "ID mismatch" not in (server.folder / "server.log").read_text()
    for store in stores:
        timer = make_timer()
        await insert(store, timer)
        for reader in stores:
            assert await reader.get([timer.id]) == [timer]


def ids_of_tables(server: CassandraServer, keyspace: str) -> dict[str, uuid.UUID]:
    """The tables of a keyspace, as one server knows them."""
    question = "SELECT table_name, id FROM system_schema.tables WHERE keyspace_name = %s"
    with only(server) as cluster:
        return dict(cluster.connect().execute(question, [keyspace]))


async def test_nodes_while_servers_are_killed(tmp_path: Path, ring: CassandraRing, url: str):
    """One server after the other is killed and comes back under load: every promise holds."""
    async with under_load(tmp_path, url, seed=21, count=2, rate=RATE, CLAIM_TTL="10s") as campaign:
        for n, server in enumerate(ring.servers):
            await campaign.load.rush(campaign.node(n))
            with campaign.fault("a server is killed"):
                await asyncio.to_thread(server.crash)
                await campaign.busy()
                await asyncio.to_thread(ring.restore)
                # One that has just come back is slow for a while, and others wait for it.
                await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.touched > 0
