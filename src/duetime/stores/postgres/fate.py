"""The fate of a statement whose connection was lost: the server may still be at work on it.

Whoever reads again must not do so before that has ended. So the session that was left behind is
ended, by another one; when it is gone, what it was asked has been done or never will be.
"""

import asyncio
from typing import NamedTuple

import asyncpg

from duetime.stores.postgres.address import Address
from duetime.stores.postgres.session import connect

# Seconds to end a session in, and between two looks whether it is gone.
SETTLE_WITHIN = 5.0
LOOK_EVERY = 0.02

_ENDING = (
    "SELECT pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity "
    "WHERE pid = $1 AND extract(epoch FROM backend_start)::text = $2"
)


class Session(NamedTuple):
    """What the server calls a connection. A pid alone may be another's by now."""

    pid: int
    began: str


async def session_of(connection: asyncpg.Connection) -> Session:
    """Ask the server what it calls a connection."""
    [(pid, began)] = await connection.fetch(
        "SELECT pid, extract(epoch FROM backend_start)::text FROM pg_catalog.pg_stat_activity "
        "WHERE pid = pg_backend_pid()"
    )
    return Session(pid, began)


async def settle(address: Address, session: Session) -> bool:
    """See to it that nothing more comes of a session; tells whether that is sure."""
    try:
        async with asyncio.timeout(SETTLE_WITHIN):
            connection = await connect(address)
            try:
                while await connection.fetch(  # noqa: ASYNC110 - nobody tells when it is gone
                    _ENDING, session.pid, session.began
                ):
                    await asyncio.sleep(LOOK_EVERY)
            finally:
                connection.terminate()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        return False
    return True
