"""MySQL and MariaDB: a database of its own on a server."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import islice
from urllib.parse import urlsplit

from bench.aims import AIMS
from bench.backlog import far_timers
from bench.databases import BareInsert, Extent
from bench.databases.served import ServedDatabases
from duetime.model import Status
from duetime.stores.mysql import statements
from duetime.stores.mysql.address import Address
from duetime.stores.mysql.errors import translated
from duetime.stores.mysql.literals import listed, text
from duetime.stores.mysql.session import Session, connect
from duetime.stores.mysql.traits import TRAITS

AT_ONCE = 5_000
SHOWN = (
    "innodb_flush_log_at_trx_commit",
    "innodb_buffer_pool_size",
    "innodb_log_file_size",  # MariaDB's
    "innodb_redo_log_capacity",  # MySQL's
    "log_bin",
)

_BARE_WAYS = {
    "bare asyncmy, statements ready": "ready",
    "bare asyncmy, executemany": "executemany",
}


class MysqlDatabase:
    """One database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._address = Address.parse(url)

    def bare_insert(self, way: str) -> BareInsert:
        arguments = ("-m", "bench.bare_mysql", _BARE_WAYS[way])
        return BareInsert(arguments, {"DATABASE_URL": self.url})

    async def count(self, *statuses: Status) -> int:
        where = f" WHERE status IN {listed(text(each.value) for each in statuses)}"
        async with _connected(self._address) as session:
            [(count,)] = await session.rows(
                f"SELECT count(*) FROM states{where if statuses else ''}"
            )
        return int(count)

    async def fill(self, count: int, on_progress: Callable[[int], None]) -> None:
        timers = far_timers(count, sink_port=9)
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


class MysqlDatabases(ServedDatabases):
    """Databases on a server."""

    kind = "mysql"
    aims = AIMS[kind]
    num_shards = TRAITS.num_shards
    bare_ways = tuple(_BARE_WAYS)
    database = MysqlDatabase

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


@asynccontextmanager
async def _connected(address: Address) -> AsyncIterator[Session]:
    session = await connect(address)
    await session.ask(session.dialect.limit(0))  # none: a table of millions takes its time
    try:
        yield session
    finally:
        session.close()
