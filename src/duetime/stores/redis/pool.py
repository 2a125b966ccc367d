"""The pool: a few links to the server, each lent for one piece of work.

A link that breaks with a write on it leaves a client behind at the server, whose script may still
run, or wait to be read. A script runs as a whole, in one thread, so once that client is gone
nothing of it will run any more: another link ends it by its number. Numbers begin anew with each
run of the server, and so the run is compared first; what an earlier run was sent is over, for it
has died.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from duetime.errors import ConfigurationError, StoreUnavailable, Unanswered
from duetime.stores.redis.address import Address
from duetime.stores.redis.errors import FAILURES, is_answer, meaning, translated
from duetime.stores.redis.link import Link
from duetime.stores.turns import Turns

FREE_WITHIN = 5.0  # seconds until a link is free
ANSWERED_WITHIN = 15.0  # seconds for an answer
SETTLED_WITHIN = 5.0  # seconds until it is known that a lost write is over

T = TypeVar("T")
Work = Callable[[Link], Awaitable[T]]


class Pool:
    """Links that are made when they are needed, and kept.

    ``vet`` looks at the first link to each run of the server: it may come back with other settings,
    or without its data.
    """

    def __init__(
        self,
        address: Address,
        size: int,
        vet: Work[None],
        *,
        free_within: float = FREE_WITHIN,
        answered_within: float = ANSWERED_WITHIN,
    ) -> None:
        self._address = address
        self._vet = vet
        self._vetted = ""  # the run
        self._free_within = free_within
        self._answered_within = answered_within
        self._idle: list[Link] = []
        self._turns = Turns(
            size, "all connections to Redis were busy for {within:.0f} s: raise pool_size"
        )

    async def run(self, work: Work[T], within: float | None = None) -> T:
        """Do some work on a link; StoreUnavailable if it fails or takes too long."""
        allowed = within or self._answered_within
        return await self._turns.run(lambda: self._done(work, allowed), self._free_within)

    async def run_to_its_end(self, work: Work[T]) -> T:
        """Do some work that writes. When this raises, it is over; else it raises Unanswered."""
        return await self._turns.run(
            lambda: self._done(work, self._answered_within, is_settled=True), self._free_within
        )

    async def close(self) -> None:
        """Let those under way finish, and close every link."""
        await self._turns.close()
        await self._hang_up()

    async def _done(self, work: Work[T], within: float, *, is_settled: bool = False) -> T:
        give_up_at = asyncio.get_running_loop().time() + within
        with translated():
            link = await self._link(give_up_at)
            try:
                async with asyncio.timeout_at(give_up_at):
                    answer = await work(link)
            except FAILURES as error:
                if is_answer(error):
                    self._idle.append(link)
                else:
                    await self._broken(link, error, is_settled=is_settled)
                raise
            except BaseException:
                await link.close()
                raise
            self._idle.append(link)
            return answer

    async def _link(self, give_up_at: float) -> Link:
        while self._idle:
            link = self._idle.pop()
            if not await link.is_gone():
                return link
            await link.close()
        try:
            async with asyncio.timeout_at(give_up_at):
                return await self._new_link()
        except ConfigurationError as error:
            raise StoreUnavailable(str(error)) from error

    async def _new_link(self) -> Link:
        link = await Link.open(self._address)
        try:
            if link.run != self._vetted:
                await self._vet(link)
                self._vetted = link.run
        except BaseException:
            await link.close()
            raise
        return link

    async def _broken(self, link: Link, error: Exception, *, is_settled: bool) -> None:
        await link.close()
        await self._hang_up()  # the others are hardly better, and would each fail somebody
        if is_settled:
            try:
                async with asyncio.timeout(SETTLED_WITHIN):
                    await end(link, self._address)
            except FAILURES as unknown:
                raise Unanswered(f"Redis: {meaning(error)}; then: {meaning(unknown)}") from error

    async def _hang_up(self) -> None:
        while self._idle:
            await self._idle.pop().close()


async def end(lost: Link, address: Address) -> None:
    """Return once the server will run nothing more of what was sent on a link that broke."""
    other = await Link.open(address)
    try:
        if other.run == lost.run:
            await other.ask("CLIENT", "KILL", "ID", lost.client)
    finally:
        await other.close()
