"""A session with PostgreSQL: how it is opened, and what every statement in it runs with."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from duetime.stores.postgres.address import Address
from duetime.stores.postgres.arrays import write_ourselves

# Seconds. The server gives up before we do, so that it can say why.
CONNECT_WITHIN = 5.0
LOCK_WITHIN = 5.0
ANSWER_WITHIN = 15.0

SETTINGS = {
    "jit": "off",  # no statement of ours is worth compiling
    # Rows are locked as they are found. By an index of ids that is the order of ids, whichever way
    # the planner joins; else two batches of different sizes could each wait for the other.
    "enable_seqscan": "off",
    # Nor is an index read in any order but its own: what is due would be gathered whole and sorted
    # for each page, as the planner cannot guess how many timers are in the shards asked for.
    "enable_bitmapscan": "off",
    "lock_timeout": str(int(LOCK_WITHIN * 1000)),
    "statement_timeout": str(int(ANSWER_WITHIN * 1000)),
}
_SETTINGS_OF_ONE = "; ".join(f"SET LOCAL {name} = {value}" for name, value in SETTINGS.items())
_IDLE_WITHIN = {"idle_in_transaction_session_timeout": "60000"}


async def connect(address: Address) -> asyncpg.Connection:
    """Open a session."""
    if address.is_pooled:
        # Whether named statements survive is up to a pooler; without their names, they do.
        connection: asyncpg.Connection = await asyncpg.connect(
            address.dsn,
            timeout=CONNECT_WITHIN,
            statement_cache_size=0,
            connection_class=PooledConnection,
        )
    else:
        connection = await asyncpg.connect(
            address.dsn,
            timeout=CONNECT_WITHIN,
            statement_cache_size=200,
            server_settings=SETTINGS | _IDLE_WITHIN,
        )
    write_ourselves(connection)
    return connection


@asynccontextmanager
async def transaction(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """Have several statements written together.

    Nothing is asked of a connection whose answer did not come: it is going to be thrown away, and
    a server that does not answer would not answer that either.
    """
    is_pooled = type(connection) is PooledConnection  # to the driver, each is an instance of all
    await connection.execute(f"BEGIN; {_SETTINGS_OF_ONE}" if is_pooled else "BEGIN")
    try:
        yield
        await connection.execute("COMMIT")
    except asyncpg.PostgresError:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
        raise


class PooledConnection(asyncpg.Connection):
    """Behind a pooler that lends its connections for a transaction each, as PgBouncer does.

    The driver sends a statement in two steps, which must reach the same session, and settings must
    not outlast it. So each statement gets a transaction around it; and only one does, so that
    locks are held no longer than without a pooler.
    """

    async def fetch(self, query: str, *args: Any, **options: Any) -> Any:
        """Run a statement, and return its rows."""
        async with self._one_transaction():
            return await super().fetch(query, *args, **options)

    async def fetchval(self, query: str, *args: Any, **options: Any) -> Any:
        """Run a statement, and return its one value."""
        async with self._one_transaction():
            return await super().fetchval(query, *args, **options)

    async def execute(self, query: str, *args: Any, **options: Any) -> str:
        """Run a statement, and return its tag. Without parameters it is sent in one step."""
        if not args:
            return await super().execute(query, **options)
        async with self._one_transaction():
            return await super().execute(query, *args, **options)

    @asynccontextmanager
    async def _one_transaction(self) -> AsyncIterator[None]:
        if self.is_in_transaction():
            yield
            return
        async with self.transaction():
            await self.execute(_SETTINGS_OF_ONE)
            yield
