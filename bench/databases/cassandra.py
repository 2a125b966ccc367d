"""Cassandra: a database is a keyspace of its own on a cluster."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import msgspec

from bench.aims import AIMS
from bench.backlog import far_timers
from bench.bare_cassandra import batches, write
from bench.databases import BareInsert, Database, Extent
from bench.usage import tree_cpu_seconds
from duetime.model import Status
from duetime.stores.cassandra.address import Address
from duetime.stores.cassandra.errors import translated
from duetime.stores.cassandra.session import Session, open_session
from duetime.stores.cassandra.store import CassandraStore
from duetime.stores.cassandra.traits import TRAITS
from duetime.stores.codec import SCALARS

AT_ONCE = 20_000
_IN_A_BATCH = 20
_STATUS = SCALARS.index("status")

_BARE_WAYS = {
    "bare driver, conditional batches": "conditional",
    "bare driver, plain batches": "plain",
}
_decode = msgspec.json.Decoder(tuple[list[Any], msgspec.Raw]).decode


class CassandraKeyspace:
    """One keyspace."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._address = Address.parse(url)

    def bare_insert(self, way: str) -> BareInsert:
        arguments = ("-m", "bench.bare_cassandra", _BARE_WAYS[way])
        return BareInsert(arguments, {"DATABASE_URL": self.url})

    async def count(self, *statuses: Status) -> int:
        async with _connected(self._address) as session:
            found = await asyncio.to_thread(self._count, session)
        return sum(found[status] for status in statuses or Status)

    def _count(self, session: Any) -> "Counter[str]":
        table = f"{self._address.keyspace}.timers"
        counter: Counter[str] = Counter()
        for (shard,) in list(session.execute(f"SELECT DISTINCT shard FROM {table}")):
            states = session.execute(
                f"SELECT state FROM {table} WHERE shard = %s AND kind = 0 AND at = 0", (shard,)
            )
            counter.update(_decode(state)[0][_STATUS] for (state,) in states)
        return counter

    async def fill(self, count: int, on_progress: Callable[[int], None]) -> None:
        timers = far_timers(count, sink_port=9)
        async with _connected(self._address) as driver:
            session = Session(driver, self._address.keyspace)
            for done in range(0, count, AT_ONCE):
                part = list(islice(timers, AT_ONCE))
                await write(session, batches(part, _IN_A_BATCH, is_conditional=False))
                on_progress(done + len(part))

    async def extent(self) -> Extent:
        async with _connected(self._address) as session:
            rows = await asyncio.to_thread(
                session.execute,
                "SELECT mebibytes FROM system_views.disk_usage "
                "WHERE keyspace_name = %s AND table_name = 'timers'",
                (self._address.keyspace,),
            )
        return Extent(table_mb=sum(row[0] for row in rows) * 1.048576)


class CassandraKeyspaces:
    """Keyspaces on a cluster.

    ``pid`` is the server's process, if it runs on this machine and is known.
    """

    kind = "cassandra"
    aims = AIMS[kind]
    num_shards = TRAITS.num_shards
    bare_ways = tuple(_BARE_WAYS)
    can_be_shared = True

    def __init__(self, url: str, *, pid: int | None = None, disk: str = "") -> None:
        self._address = Address.parse(url)
        self._url = url
        self._pid = pid
        self._disk = disk
        self.is_metered = pid is not None

    async def describe(self) -> dict[str, str]:
        with translated():
            async with _connected(self._address) as session:
                row = session.execute("SELECT release_version FROM system.local").one()
        disk = {"disk": self._disk} if self._disk else {}
        return {"cassandra": f"{row[0]}, one node", **disk}

    def cpu_seconds(self) -> float | None:
        return None if self._pid is None else tree_cpu_seconds(self._pid)

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Database]:
        keyspace = f"bench_{secrets.token_hex(8)}"
        server, _, rest = self._url.partition("://")
        place, question, options = rest.partition("?")
        url = f"{server}://{place.partition('/')[0]}/{keyspace}{question}{options}"
        store = CassandraStore(Address.parse(url))
        try:
            await store.migrate()
            await store.close()
            yield CassandraKeyspace(url)
        finally:
            async with _connected(self._address) as session:
                drop = f"DROP KEYSPACE IF EXISTS {keyspace}"
                await asyncio.to_thread(session.execute, drop, timeout=60)


@asynccontextmanager
async def _connected(address: Address) -> AsyncIterator[Any]:
    session = await asyncio.to_thread(open_session, address)
    try:
        yield session
    finally:
        await asyncio.to_thread(session.cluster.shutdown)
