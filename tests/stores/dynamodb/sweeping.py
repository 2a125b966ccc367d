"""A step of the sweep, and when what it leaves is dropped."""

from duetime import ids
from duetime.stores.dynamodb import sweep
from tests.factories import NOW
from tests.stores.dynamodb.conftest import RETENTION
from tests.stores.dynamodb.made import left

SOON = NOW + 60_000
MONTH = sweep.EVERY


async def swept(store, now=SOON, limit=1_000):
    """One step of the sweep, as the janitor asks for it."""
    return await store.purge(ids.ALL_SHARDS, now - RETENTION, limit)


async def dates(url):
    """When what is left is dropped, in order."""
    return sorted(int(item.get("x", {}).get("N", 0)) for item in await left(url))
