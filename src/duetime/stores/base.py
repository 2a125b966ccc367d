"""The base of every store: opened once, refused before that and after its end, and without news.

A store says how it is opened and how it is shut. That neither happens in the middle of the other is
seen to here.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from duetime.errors import StoreUnavailable
from duetime.stores import News
from duetime.stores.traits import Traits


class BaseStore(ABC):
    """What no store does differently. Nothing is opened before ``migrate``."""

    traits: Traits

    def __init__(self) -> None:
        self._opening = asyncio.Lock()
        self._is_open = False
        self._is_closed = False

    @abstractmethod
    async def _open(self) -> None:
        """Connect, and bring the schema up to date; or raise, with nothing left open."""

    @abstractmethod
    async def _shut(self) -> None:
        """Wait for the writes under way, and let go of every connection. It may be called again."""

    async def migrate(self) -> None:
        async with self._opening:
            self._check_not_closed()
            if not self._is_open:
                await self._open()
                self._is_open = True

    async def close(self) -> None:
        self._is_closed = True
        async with self._opening:
            await self._shut()

    async def announce(self, news: News) -> None:  # noqa: ARG002 - see below
        """Drop them: not every engine has a way to pass news on."""
        self._check_open()

    def listen(self, hear: Callable[[News], None]) -> None:  # noqa: B027 - most hear nothing
        """Nothing will be heard."""

    def _check_open(self) -> None:
        self._check_not_closed()
        if not self._is_open:
            raise StoreUnavailable("the store is not open yet: call migrate() first")

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
