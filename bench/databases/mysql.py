"""MySQL and MariaDB: a database of its own on a server."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, ClassVar
from urllib.parse import urlsplit

import asyncmy
import uvloop

from bench.aims import Aims
from bench.backlog import far_timers
from bench.databases import Extent, Way
from bench.databases.served import ServedDatabases
from bench.sizes import Sizes
from duetime.stores.codec import progress_text, to_json
from duetime.stores.mysql import statements
from duetime.stores.mysql.address import Address
from duetime.stores.mysql.errors import translated
from duetime.stores.mysql.literals import listed, text
from duetime.stores.mysql.session import Session, connect
from duetime.stores.mysql.traits import TRAITS
from duetime.timer import Status, Timer

AT_ONCE = 5_000
SHOWN = (
    "innodb_flush_log_at_trx_commit",
    "innodb_buffer_pool_size",
    "innodb_log_file_size",  # MariaDB's
    "innodb_redo_log_capacity",  # MySQL's
    "log_bin",
)

_INNODB = {"innodb-buffer-pool-size": "1G", "innodb-log-buffer-size": "16M"}


class MysqlDatabase:
    """One database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._address = Address.parse(url)

    async def count(self, *statuses: Status) -> int:
        where = f" WHERE status IN {listed(text(each.value) for each in statuses)}"
        async with _connected(self._address) as session:
            [(count,)] = await session.rows(
                f"SELECT count(*) FROM states{where if statuses else ''}"
            )
        return int(count)

    async def fill(self, count: int, on_progress: Callable[[int], None]) -> None:
        timers = far_timers(count)
        async with _connected(self._address) as session:
            for done in range(0, count, AT_ONCE):
                batch = list(islice(timers, AT_ONCE))
                await session.ask(
                    "BEGIN",
                    statements.inserting_timers([statements.timer_row(each) for each in batch]),
                    statements.inserting_states([statements.state_row(each) for each in batch]),
                    "COMMIT",
                )
                on_progress(done + len(batch))
            await session.ask("ANALYZE TABLE timers, states")

    async def extent(self) -> Extent:
        async with _connected(self._address) as session:
            await session.ask("ANALYZE TABLE timers, states, attempts")
            [(table, index)] = await session.rows(
                "SELECT sum(data_length), sum(index_length) FROM information_schema.tables "
                f"WHERE table_schema = {text(self._address.database)}"
            )
        return Extent(table_mb=int(table) / 1e6, index_mb=int(index) / 1e6)


# The bare driver ------------------------------------------------------------------------------

# What a way prepares for each batch, and how it sends that.
Prepare = Callable[[Sequence[Timer]], Any]
Send = Callable[[Any, Any], Awaitable[None]]


def _prepare_ready(batch: Sequence[Timer]) -> tuple[bytes, bytes]:
    return (
        statements.inserting_timers([statements.timer_row(timer) for timer in batch]),
        statements.inserting_states([statements.state_row(timer) for timer in batch]),
    )


async def _send_ready(cursor: Any, ready: tuple[bytes, bytes]) -> None:
    for statement in ready:
        await cursor.execute(statement)


def _prepare_values(batch: Sequence[Timer]) -> tuple[list[Any], list[Any]]:
    return [_timer_values(timer) for timer in batch], [_state_values(timer) for timer in batch]


async def _send_values(cursor: Any, values: tuple[list[Any], list[Any]]) -> None:
    for table, columns, rows in zip(
        ("timers", "states"), (statements.TIMER, statements.STATE), values, strict=True
    ):
        marks = ", ".join(["%s"] * len(columns))
        await cursor.executemany(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows
        )


def _id(timer: Timer) -> bytes:
    return bytes.fromhex(timer.id.replace("-", ""))


def _timer_values(timer: Timer) -> tuple[Any, ...]:
    spec = timer.spec
    return (
        *(_id(timer), timer.tenant, timer.group, timer.timer_id, timer.execute_at),
        *(timer.created_at, timer.fingerprint, spec.name, spec.correlation_id, to_json(spec)),
    )


def _state_values(timer: Timer) -> tuple[Any, ...]:
    return (
        *(_id(timer), timer.wake_at, timer.updated_at, timer.executed_at, None, timer.version),
        *(timer.weight, timer.shard, timer.status.value, timer.tenant),
        progress_text(timer.progress),
    )


async def _insert(prepare: Prepare, send: Send, address: Address, count: int, size: int) -> float:
    """Insert so many timers on one connection, and tell how fast that was."""
    timers = list(far_timers(count))
    batches = [prepare(timers[at : at + size]) for at in range(0, count, size)]
    connection = await asyncmy.connect(
        host=address.host,
        port=address.port,
        user=address.user,
        password=address.password,
        database=address.database,
        binary_prefix=True,
    )
    cursor = connection.cursor()
    started = time.perf_counter()
    for batch in batches:
        await connection.begin()
        await send(cursor, batch)
        await connection.commit()
    seconds = time.perf_counter() - started
    connection.close()
    return count / seconds


def _way(prepare: Prepare, send: Send) -> Way:
    def insert(url: str, count: int, size: int) -> float:
        return uvloop.run(_insert(prepare, send, Address.parse(url), count, size))

    return insert


WAYS: dict[str, Way] = {
    # Statements of many rows, written beforehand: the fastest way in over one connection.
    "bare asyncmy, statements ready": _way(_prepare_ready, _send_ready),
    # What one would write first: the driver makes such statements of values.
    "bare asyncmy, executemany": _way(_prepare_values, _send_values),
}


class MysqlDatabases(ServedDatabases):
    """Databases on a server."""

    kind = "mysql"
    aims = Aims(batches=0.5, burst=0.5)
    sizes = Sizes(turns=5)
    num_shards = TRAITS.num_shards
    bare_ways = tuple(WAYS)
    database = MysqlDatabase
    server = "mysql"
    server_options: ClassVar = {
        "fsync": True,
        "settings": {**_INNODB, "innodb-redo-log-capacity": "1G"},
    }

    async def _describe(self) -> dict[str, str]:
        with translated():
            async with _connected(Address.parse(self._url)) as session:
                [(version,)] = await session.rows("SELECT version()")
                shown = await session.rows(
                    f"SHOW VARIABLES WHERE Variable_name IN {listed(map(text, SHOWN))}"
                )
        settings = [f"{name.decode()}={value.decode()}" for name, value in shown]
        return {"mysql": ", ".join([version.decode(), *settings])}

    def _url_of(self, name: str) -> str:
        return urlsplit(self._url)._replace(path=f"/{name}").geturl()

    async def _create(self, url: str) -> None:
        await self._ask(f"CREATE DATABASE {Address.parse(url).database}")

    async def _drop(self, url: str) -> None:
        await self._ask(f"DROP DATABASE {Address.parse(url).database}")

    async def _ask(self, statement: str) -> None:
        async with _connected(Address.parse(self._url)) as session:
            await session.ask(statement)


class MariadbDatabases(MysqlDatabases):
    """The same on MariaDB, which calls a setting of its own server by another name."""

    server = "mariadb"
    server_options: ClassVar = {
        "fsync": True,
        "settings": {**_INNODB, "innodb-log-file-size": "1G"},
    }


@asynccontextmanager
async def _connected(address: Address) -> AsyncIterator[Session]:
    session = await connect(address)
    await session.ask(session.dialect.limit(0))  # none: a table of millions takes its time
    try:
        yield session
    finally:
        session.close()
