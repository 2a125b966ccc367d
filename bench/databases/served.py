"""Databases on a server: made fresh as a node makes its own, and dropped whatever happens."""

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from bench.aims import Aims
from bench.databases import Database
from bench.sizes import Sizes
from duetime.benching.usage import tree_cpu_seconds
from duetime.config import load_settings
from duetime.stores.opening import Options, open_store


class ServedDatabases(ABC):
    """An engine that is a server.

    ``pid`` is the server's process, if it runs on this machine and is known.
    """

    kind: str
    aims: Aims
    sizes: Sizes
    num_shards: int
    bare_ways: tuple[str, ...]
    database: Callable[[str], Database]  # from its URL
    server: str  # which of tests/servers it is measured on, unless somebody names one
    # What the administrator of a small machine would set; the rest are the engine's defaults.
    server_options: ClassVar[Mapping[str, Any]]

    def __init__(self, url: str, *, pid: int | None = None, disk: str = "") -> None:
        self._url = url
        self._pid = pid
        self._disk = disk
        self.is_metered = pid is not None

    async def describe(self) -> dict[str, str]:
        disk = {"disk": self._disk} if self._disk else {}
        return {**await self._describe(), **disk}

    def cpu_seconds(self) -> float | None:
        return None if self._pid is None else tree_cpu_seconds(self._pid)

    @asynccontextmanager
    async def vacant(self) -> AsyncIterator[str]:
        """The URL of a database with nothing in it; whatever is made there is dropped."""
        url = self._url_of(f"bench_{secrets.token_hex(8)}")
        await self._create(url)
        try:
            yield url
        finally:
            await self._drop(url)

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Database]:
        async with self.vacant() as url:
            # With the retention of a node: DynamoDB's tables are made by it, and the sweep that is
            # measured is the one that users have. With RETENTION=never, which a node reads too,
            # DynamoDB Local looks for no dates.
            store = open_store(url, Options(retention=load_settings({}, os.environ).retention))
            await store.migrate()
            await store.close()
            await self.settle(url)
            yield type(self).database(url)

    @abstractmethod
    def _url_of(self, name: str) -> str:
        """The URL of a database of that name on the server."""

    @abstractmethod
    async def _describe(self) -> dict[str, str]:
        """The server's version, and what of its settings matters for the figures."""

    async def _create(self, url: str) -> None:  # noqa: B027 - most need nothing
        """Make the database, where the store does not."""

    async def settle(self, url: str) -> None:  # noqa: B027
        """Have what earlier work left to do done now, where the server can be asked to."""

    @abstractmethod
    async def _drop(self, url: str) -> None:
        """Leave nothing of the database, which may not have been made."""
