"""Graphile-worker: its jobs are rows of PostgreSQL, in a schema of their own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.databases.postgres import PostgresSchemas
from bench.rivals.rival import Place, Rival
from duetime.stores.postgres.address import Address


class GraphileWorker(Rival):
    """On the same server as Duetime, or on one that is set up in the same way."""

    package = title = "graphile-worker"

    def __init__(self, schemas: PostgresSchemas) -> None:
        self._schemas = schemas

    @property
    def is_metered(self) -> bool:
        return self._schemas.is_metered

    def cpu_seconds(self) -> float | None:
        return self._schemas.cpu_seconds()

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Place]:
        async with self._schemas.vacant() as url:
            address = Address.parse(url)
            place = Place(address.dsn, address.schema)
            await self.produce(place, 0, "none")  # makes its tables
            await self._schemas.settle(url)
            yield place
