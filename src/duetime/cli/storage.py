"""The store that a node's settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from duetime.config import Settings
from duetime.layout import agree_on_shards
from duetime.outbox import Outbox
from duetime.stores import Store
from duetime.stores.opening import Options, open_store


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Store]:
    """The store, connected and with its schema up to date, and closed again."""
    options = Options(
        sqlite_synchronous=settings.sqlite_synchronous,
        schema=settings.database_schema,
        pool_size=settings.database_pool_size,
        retention=settings.retention,
    )
    store = open_store(settings.database_url, options)
    try:
        await store.migrate()
        yield store
    finally:
        await store.close()


def with_outbox(settings: Settings, store: Store) -> Store:
    """The store as a node's engine and API write to it: with events, if the settings ask for it."""
    return Outbox(store) if settings.outbox == "on" else store


async def migrate(settings: Settings) -> None:
    """Bring the schema up to date, and leave the database again."""
    async with opened(settings) as store:
        await agree_on_shards(store, settings.num_shards)
