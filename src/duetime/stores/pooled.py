"""The pooled store: each call is some work on one of a few connections to a server.

Heartbeats and other small documents have a connection to themselves, so that a node that is busy
does not pass for dead. Searches have a third of the rest at most, since they may take long.
"""

from collections.abc import Awaitable, Callable
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

from duetime.stores.base import BaseStore
from duetime.stores.turns import Turns

# Seconds for a heartbeat: a third of what a node is given by default before it is taken for dead.
QUICK_WITHIN = 3.0
SEARCH_WITHIN = 15.0  # seconds until a search begins, while others are under way

P = ParamSpec("P")
T = TypeVar("T")
ConnectionT = TypeVar("ConnectionT")
ConnectionT_co = TypeVar("ConnectionT_co", covariant=True)


class Pool(Protocol[ConnectionT_co]):
    """Connections that are lent for one piece of work."""

    async def run(
        self, work: Callable[[ConnectionT_co], Awaitable[T]], within: float | None = None
    ) -> T:
        """Do some work on a connection; StoreUnavailable if it fails or takes too long."""
        ...

    async def run_to_its_end(self, work: Callable[[ConnectionT_co], Awaitable[T]]) -> T:
        """Do some work that writes. When this raises, it is over; else it raises Unanswered."""
        ...

    async def close(self) -> None:
        """Let those under way finish, and close every connection."""


class PooledStore(BaseStore, Generic[ConnectionT]):
    """What the stores on servers that speak SQL have in common."""

    def __init__(self, pool: Pool[ConnectionT], quick: Pool[ConnectionT], searches: int) -> None:
        """``quick`` is for what must not queue up behind the rest, nor wait on a silent line."""
        super().__init__()
        self._pool = pool
        self._quick = quick
        self._searching = Turns(
            searches,
            f"other searches kept {self.traits.engine} busy for {{within:.0f}} s: try again, "
            "or raise pool_size",
        )

    async def _shut(self) -> None:
        await self._pool.close()
        await self._quick.close()

    async def _run(
        self,
        work: Callable[Concatenate[ConnectionT, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        self._check_open()
        return await self._pool.run(lambda connection: work(connection, *args, **kwargs))

    async def _write(
        self,
        work: Callable[Concatenate[ConnectionT, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        self._check_open()
        return await self._pool.run_to_its_end(lambda connection: work(connection, *args, **kwargs))

    async def _run_quickly(
        self,
        work: Callable[Concatenate[ConnectionT, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        self._check_open()
        return await self._quick.run(lambda connection: work(connection, *args, **kwargs))

    async def _search(
        self,
        work: Callable[Concatenate[ConnectionT, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        async with self._searching.taken_within(SEARCH_WITHIN):
            return await self._run(work, *args, **kwargs)
