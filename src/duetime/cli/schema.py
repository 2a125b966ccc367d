"""The schema of the database, brought up to date before anybody uses it."""

from duetime.config import Settings


async def migrate(settings: Settings) -> None:
    """Run what the database has not seen yet, and leave it again."""
    # Imported here: the commands that only call a node load no store.
    from duetime.stores.opening import open_store  # noqa: PLC0415

    store = open_store(settings.database_url, sqlite_synchronous=settings.sqlite_synchronous)
    try:
        await store.migrate()
    finally:
        await store.close()
