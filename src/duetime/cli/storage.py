"""The store that a node's settings name."""

from duetime.config import Settings
from duetime.stores import Store
from duetime.stores.opening import Options, open_store


def store_for(settings: Settings) -> Store:
    """Make it; its ``migrate`` connects it."""
    options = Options(
        sqlite_synchronous=settings.sqlite_synchronous,
        schema=settings.database_schema,
        pool_size=settings.database_pool_size,
        retention=settings.retention,
    )
    return open_store(settings.database_url, options)
