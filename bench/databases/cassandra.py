"""Cassandra: a database is a keyspace of its own on a cluster."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import msgspec

from bench.aims import AIMS
from bench.backlog import far_timers
from bench.bare_cassandra import batches, write
from bench.databases import BareInsert, Extent
from bench.databases.served import ServedDatabases
from duetime.model import Status
from duetime.stores.cassandra.address import Address
from duetime.stores.cassandra.errors import translated
from duetime.stores.cassandra.session import Session, open_session
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


class CassandraKeyspaces(ServedDatabases):
    """Keyspaces on a cluster."""

    kind = "cassandra"
    aims = AIMS[kind]
    num_shards = TRAITS.num_shards
    bare_ways = tuple(_BARE_WAYS)
    database = CassandraKeyspace

    async def _describe(self) -> dict[str, str]:
        with translated():
            async with _connected(Address.parse(self._url)) as session:
                row = session.execute("SELECT release_version FROM system.local").one()
        return {"cassandra": f"{row[0]}, one node"}

    def _url_of(self, name: str) -> str:
        server, _, rest = self._url.partition("://")
        place, question, options = rest.partition("?")
        return f"{server}://{place.partition('/')[0]}/{name}{question}{options}"

    async def _drop(self, url: str) -> None:
        drop = f"DROP KEYSPACE IF EXISTS {Address.parse(url).keyspace}"
        async with _connected(Address.parse(self._url)) as session:
            await asyncio.to_thread(session.execute, drop, timeout=60)


@asynccontextmanager
async def _connected(address: Address) -> AsyncIterator[Any]:
    session = await asyncio.to_thread(open_session, address)
    try:
        yield session
    finally:
        await asyncio.to_thread(session.cluster.shutdown)
