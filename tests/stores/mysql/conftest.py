"""An empty MySQL store, and somebody else's session beside it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from duetime.stores.mysql.address import Address
from duetime.stores.mysql.store import MysqlStore
from tests.servers.fixtures import FreshDatabase
from tests.servers.kinds import MYSQL
from tests.servers.mysql import rows, session
from tests.waiting import eventually


@pytest.fixture(params=MYSQL)
async def mysql_url(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> str:
    """The URL of an empty database, on a server of each kind."""
    return await fresh_database(request.param)


@pytest.fixture
async def mysql(mysql_url: str) -> AsyncIterator[MysqlStore]:
    """An empty MySQL store."""
    opened = MysqlStore(Address.parse(mysql_url))
    await opened.migrate()
    yield opened
    await opened.close()


@pytest.fixture
async def somebody(mysql_url: str):
    """Somebody else's session, in the database of the test."""
    async with session(mysql_url) as connection:

        async def ask(statement):
            return await rows(connection, statement)

        yield ask


async def hold(ask, timer) -> None:
    """Lock a timer's state, until the transaction ends."""
    await ask("BEGIN")
    await ask(f"SELECT 1 FROM states WHERE id = x'{timer.id.replace('-', '')}' FOR UPDATE")


async def until_waiting(ask, count: int) -> None:
    """Return once so many statements of the test wait for a row."""

    async def are_waiting() -> bool:
        # InnoDB makes a new list only if nobody has looked at the last one for a tenth of a second.
        # So those who look take turns: others may, in another process, on the same server.
        await ask("SELECT GET_LOCK('looking', 30)")
        await asyncio.sleep(0.12)
        [(found,)] = await ask(
            "SELECT count(*) FROM information_schema.innodb_trx x "
            "JOIN information_schema.processlist p ON p.id = x.trx_mysql_thread_id "
            "WHERE x.trx_state = 'LOCK WAIT' AND p.db = database()"
        )
        await ask("SELECT RELEASE_LOCK('looking')")
        return bool(found == count)

    await eventually(are_waiting, f"{count} statements to wait for a lock")
