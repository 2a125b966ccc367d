"""The schema of the database, brought up to date before anybody uses it."""

from duetime.config import Settings


async def migrate(settings: Settings) -> None:
    """Run what the database has not seen yet, and leave it again."""
    # Imported here: the commands that only call a node load no store.
    from duetime.cli.storage import store_for  # noqa: PLC0415
    from duetime.layout import agree_on_shards  # noqa: PLC0415

    store = store_for(settings)
    try:
        await store.migrate()
        await agree_on_shards(store, settings.num_shards)
    finally:
        await store.close()
