"""Cassandra: a database is a keyspace of its own on a cluster."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, ClassVar

import msgspec
import uvloop

from bench.aims import Aims
from bench.backlog import far_timers
from bench.databases import Extent, Way
from bench.databases.served import ServedDatabases
from bench.sizes import Sizes
from duetime.stores import Insert
from duetime.stores.cassandra.address import Address
from duetime.stores.cassandra.errors import translated
from duetime.stores.cassandra.pieces import Ground, Insertion
from duetime.stores.cassandra.session import Session, Step, open_session
from duetime.stores.cassandra.traits import TRAITS
from duetime.stores.codec import SCALARS
from duetime.timer import Status, Timer

AT_ONCE = 20_000
BATCHES_AT_ONCE = 64
_OPEN = "INSERT INTO duetime.shards (everything, shard) VALUES (0, ?)"
_IN_A_BATCH = 20
_STATUS = SCALARS.index("status")

_decode = msgspec.json.Decoder(tuple[list[Any], msgspec.Raw]).decode


class CassandraKeyspace:
    """One keyspace."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._address = Address.parse(url)

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
        timers = far_timers(count)
        async with _connected(self._address) as driver:
            session = Session(driver, self._address.keyspace)
            for done in range(0, count, AT_ONCE):
                part = list(islice(timers, AT_ONCE))
                await _write(session, _batches(part, _IN_A_BATCH, is_conditional=False))
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


# The bare driver ------------------------------------------------------------------------------


def _batches(
    timers: Iterable[Timer], size: int, *, is_conditional: bool
) -> dict[int, list[list[Step]]]:
    """What to write, by shard: batches of so many timers each."""
    by_shard: dict[int, list[list[Step]]] = {}
    for number, timer in enumerate(timers):
        parts = by_shard.setdefault(timer.shard, [[]])
        if number and len(parts[-1]) >= 3 * size:
            parts.append([])
        steps = Insertion(Insert(timer), None).steps(Ground(timer.shard))
        parts[-1] += [step if is_conditional else _unconditional(step) for step in steps]
    return by_shard


def _unconditional(step: Step) -> Step:
    statement, values = step
    return statement.partition(" IF ")[0], values


async def _write(session: Session, by_shard: dict[int, list[list[Step]]]) -> None:
    """Write the batches of each shard one after the other, and of many shards at once."""
    room = asyncio.Semaphore(BATCHES_AT_ONCE)

    async def write_shard(shard: int, parts: list[list[Step]]) -> None:
        await session.run(_OPEN, (shard,))
        for part in parts:
            async with room:
                await session.run_batch(part)

    await asyncio.gather(*(write_shard(shard, parts) for shard, parts in by_shard.items()))


async def _insert(address: Address, count: int, size: int, *, is_conditional: bool) -> float:
    """Insert so many timers, and tell how fast that was."""
    # Each shard gets a share of what would be one transaction elsewhere.
    by_shard = _batches(far_timers(count), size, is_conditional=is_conditional)
    driver = await asyncio.to_thread(open_session, address)
    session = Session(driver, address.keyspace)
    started = time.perf_counter()
    await _write(session, by_shard)
    seconds = time.perf_counter() - started
    await asyncio.to_thread(driver.cluster.shutdown)
    return count / seconds


def _way(*, is_conditional: bool) -> Way:
    def insert(url: str, count: int, size: int) -> float:
        return uvloop.run(_insert(Address.parse(url), count, size, is_conditional=is_conditional))

    return insert


# A batch is of one shard.
WAYS: dict[str, Way] = {
    # The store's conditions, without which a key could be taken twice: servers agree on each batch.
    "bare driver, conditional batches": _way(is_conditional=True),
    # It writes over whatever is there.
    "bare driver, plain batches": _way(is_conditional=False),
}


class CassandraKeyspaces(ServedDatabases):
    """Keyspaces on a cluster."""

    kind = "cassandra"
    aims = Aims(batches=0.5)
    sizes = Sizes(turns=5)
    num_shards = TRAITS.num_shards
    bare_ways = tuple(WAYS)
    database = CassandraKeyspace
    server = "cassandra"
    server_options: ClassVar = {"fsync": True, "is_long_lived": True, "heap": "2G"}

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
