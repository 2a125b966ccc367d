"""Stores on the run's DynamoDB Local, and what they ask of it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.store import DynamoStore
from tests.servers.fixtures import FreshDatabase

RETENTION = 3_600_000


@pytest.fixture
async def dynamodb_url(fresh_database: FreshDatabase) -> str:
    """The URL of a table that nobody has made yet."""
    return await fresh_database("dynamodb")


@pytest.fixture
async def dynamodb(dynamodb_url: str) -> AsyncIterator[DynamoStore]:
    """An empty store."""
    store = DynamoStore(Address.parse(dynamodb_url))
    await store.migrate()
    yield store
    await store.close()


@pytest.fixture
async def dropping(dynamodb_url: str) -> AsyncIterator[DynamoStore]:
    """A store with a retention."""
    store = DynamoStore(Address.parse(dynamodb_url), RETENTION)
    await store.migrate()
    yield store
    await store.close()


class Asked:
    """What a store asks, and what that costs."""

    def __init__(self, store: DynamoStore) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.units = 0.0
        self._wire = store._calls._wire
        self._call = self._wire.call
        self._wire.call = self._listen

    async def _listen(self, operation: str, arguments: Any, within: float) -> Any:
        self.requests.append((operation, arguments))
        answer = await self._call(
            operation, {**arguments, "ReturnConsumedCapacity": "TOTAL"}, within
        )
        used = answer.get("ConsumedCapacity", [])
        for each in used if isinstance(used, list) else [used]:
            self.units += each["CapacityUnits"]
        return answer

    def forget(self) -> None:
        """Begin anew."""
        self.requests.clear()
        self.units = 0.0

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.requests]


@pytest.fixture
def asked(dynamodb: DynamoStore) -> Asked:
    """What the store asks from now on."""
    return Asked(dynamodb)
