"""The pool of connections to PostgreSQL: a bounded number, and a bounded wait for each thing.

A connection whose answer did not come in time, or whose caller went away, is thrown away: what it
was asked may still be under way, and nobody else must get to hear its answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import asyncpg

from duetime.errors import StoreUnavailable, Unanswered, not_known
from duetime.stores.postgres.address import Address
from duetime.stores.postgres.errors import meaning, spoils_connection, translated
from duetime.stores.postgres.fate import Session, session_of, settle
from duetime.stores.postgres.session import ANSWER_WITHIN, connect
from duetime.stores.turns import Turns

T = TypeVar("T")

# Seconds.
FREE_WITHIN = 5.0  # a connection, when all are in use
MARGIN = 5.0  # on top of what the server allows itself


class Pool:
    """Connections that are opened as needed, and kept."""

    def __init__(self, address: Address, size: int, within: float = ANSWER_WITHIN + MARGIN) -> None:
        self._address = address
        self._within = within  # seconds that a piece of work may take
        self._idle: list[asyncpg.Connection] = []  # the one used last is lent first
        self._sessions: dict[asyncpg.Connection, Session] = {}
        self._turns = Turns(
            size,
            f"all {size} connections to PostgreSQL were in use for {{within:.0f}} s: "
            "raise pool_size, or look for what keeps it busy",
        )

    async def run(
        self, work: Callable[[asyncpg.Connection], Awaitable[T]], within: float | None = None
    ) -> T:
        """Do some work on a connection; StoreUnavailable if it fails or takes too long."""
        with translated():
            connection = await self._lend()
            is_fine = False
            try:
                async with asyncio.timeout(within or self._within):
                    answer = await work(connection)
                is_fine = True
            except asyncpg.PostgresError as error:
                is_fine = not spoils_connection(error)
                raise
            finally:
                self._take_back(connection, is_fine=is_fine)
            return answer

    async def run_to_its_end(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Do some work that writes. When this raises, it has ended one way or the other.

        Unless it raises Unanswered: then that could not be seen to.
        """
        session: Session | None = None
        may_go_on = False

        async def noted(connection: asyncpg.Connection) -> T:
            nonlocal session, may_go_on
            session, may_go_on = self._sessions.get(connection), True
            try:
                return await work(connection)
            except asyncpg.PostgresError:
                may_go_on = connection.is_closed()  # if not, the server itself said that it failed
                raise

        try:
            return await self.run(noted)
        except StoreUnavailable as error:
            if not may_go_on or (session is not None and await settle(self._address, session)):
                raise
            raise Unanswered(not_known(meaning(error))) from error

    async def close(self) -> None:
        """Let those under way finish, and close every connection."""
        await self._turns.close()
        self._sessions.clear()
        while self._idle:
            connection = self._idle.pop()
            with suppress(Exception):
                await connection.close(timeout=2)

    async def _lend(self) -> asyncpg.Connection:
        await self._turns.enter(FREE_WITHIN)
        try:
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_closed():
                    return connection
                self._sessions.pop(connection, None)
            return await self._open()
        except BaseException:
            self._turns.leave()
            raise

    async def _open(self) -> asyncpg.Connection:
        connection = await connect(self._address)
        if not self._address.is_pooled:  # where it would be the pooler's, for a moment
            try:
                async with asyncio.timeout(ANSWER_WITHIN):
                    self._sessions[connection] = await session_of(connection)
            except BaseException:
                connection.terminate()
                raise
        return connection

    def _take_back(self, connection: asyncpg.Connection, *, is_fine: bool) -> None:
        if is_fine and not connection.is_closed():
            self._idle.append(connection)
        else:
            self._sessions.pop(connection, None)
            connection.terminate()
        self._turns.leave()
