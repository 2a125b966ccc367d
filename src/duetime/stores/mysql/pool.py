"""The pool of sessions with MySQL: a bounded number, and a bounded wait for each thing.

A session whose answer did not come in time, or whose caller went away, is thrown away: what it
was asked may still be under way, and nobody else must get to hear its answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from asyncmy import errors

from duetime.errors import StoreUnavailable, Unanswered, not_known
from duetime.stores.mysql.address import Address
from duetime.stores.mysql.errors import is_told, meaning, spoils_connection, translated
from duetime.stores.mysql.fate import settle
from duetime.stores.mysql.session import ANSWER_WITHIN, Session, connect
from duetime.stores.turns import Turns

T = TypeVar("T")

# Seconds.
FREE_WITHIN = 5.0  # a session, when all are in use
MARGIN = 5.0  # on top of what the server allows itself


class Pool:
    """Sessions that are opened as needed, and kept."""

    def __init__(self, address: Address, size: int, within: float = ANSWER_WITHIN + MARGIN) -> None:
        self._address = address
        self._within = within  # seconds that a piece of work may take
        self._idle: list[Session] = []  # the one used last is lent first
        self._turns = Turns(
            size,
            f"all {size} connections to MySQL were in use for {{within:.0f}} s: "
            "raise pool_size, or look for what keeps it busy",
        )

    async def run(self, work: Callable[[Session], Awaitable[T]], within: float | None = None) -> T:
        """Do some work on a session; StoreUnavailable if it fails or takes too long."""
        with translated():
            session = await self._lend()
            try:
                async with asyncio.timeout(within or self._within):
                    return await _worked(session, work)
            finally:
                self._take_back(session)

    async def run_to_its_end(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Do some work that writes. When this raises, it has ended one way or the other.

        Unless it raises Unanswered: then that could not be seen to.
        """
        lent: Session | None = None

        async def noted(session: Session) -> T:
            nonlocal lent
            lent = session
            return await work(session)

        try:
            return await self.run(noted)
        except StoreUnavailable as error:
            if lent is None or not lent.may_go_on or await settle(self._address, lent.whereabouts):
                raise
            raise Unanswered(not_known(meaning(error))) from error

    async def close(self) -> None:
        """Let those under way finish, and close every session."""
        await self._turns.close()
        while self._idle:
            session = self._idle.pop()
            with suppress(Exception):
                async with asyncio.timeout(2):
                    await session.say_goodbye()
            session.close()

    async def _lend(self) -> Session:
        await self._turns.enter(FREE_WITHIN)
        try:
            while self._idle:
                session = self._idle.pop()
                if not session.is_closed:
                    return session
                session.close()
            return await connect(self._address)
        except BaseException:
            self._turns.leave()
            raise

    def _take_back(self, session: Session) -> None:
        if session.is_spoiled:  # and so are the others, which lead to the same server
            while self._idle:
                self._idle.pop().close()
        if session.may_go_on or session.is_closed:
            session.close()
        else:
            self._idle.append(session)
        self._turns.leave()


async def _worked(session: Session, work: Callable[[Session], Awaitable[T]]) -> T:
    """Do the work, and leave no transaction behind; ``may_go_on`` tells if that is not sure."""
    session.may_go_on = True
    try:
        answer = await work(session)
    except StoreUnavailable:
        session.may_go_on = False  # raised between two transactions
        raise
    except errors.MySQLError as error:
        if is_told(error):
            with suppress(errors.MySQLError):
                await session.ask("ROLLBACK")
                session.may_go_on = False
        if spoils_connection(error):
            session.is_spoiled = True
            session.close()
        raise
    session.may_go_on = False
    return answer
