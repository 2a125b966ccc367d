"""The table: made, found, refused."""

import asyncio
import json

import pytest

from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores import Count
from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.store import DynamoStore
from duetime.stores.dynamodb.table import Table, definition
from duetime.stores.dynamodb.wire import Wire
from duetime.timer import Status
from tests.factories import claim_of, claimed
from tests.servers.dynamodb import ask
from tests.stores.dynamodb.impostor import impostor, refusal


async def migrated(url, retention=None):
    store = DynamoStore(Address.parse(url), retention)
    try:
        await store.migrate()
    finally:
        await store.close()


async def test_it_is_made_once(dynamodb_url):
    """Five that start at once end with one table, paid by request."""
    await asyncio.gather(*(migrated(dynamodb_url) for _ in range(5)))
    await migrated(dynamodb_url)
    made = (await ask(dynamodb_url, "DescribeTable"))["Table"]
    assert made["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


async def test_one_has_made_it(dynamodb_url):
    """Of those that try at once, and nobody who comes later."""
    address = Address.parse(dynamodb_url)
    wire = Wire(address, 5)
    tables = [Table(wire, address, drops=True) for _ in range(5)]
    assert sorted(await asyncio.gather(*(table.migrate() for table in tables))) == [
        *[False] * 4,
        True,
    ]
    assert not await tables[0].migrate()
    await wire.close()


async def test_provisioned_units(dynamodb_url):
    """Who wants to pay for provisioned units says how many."""
    await migrated(f"{dynamodb_url}&read_units=3&write_units=4")
    made = (await ask(dynamodb_url, "DescribeTable"))["Table"]["ProvisionedThroughput"]
    assert (made["ReadCapacityUnits"], made["WriteCapacityUnits"]) == (3, 4)


async def test_it_drops_by_itself_only_with_a_retention(dynamodb_url):
    """The time to live is turned on when there is a retention, by many at once too."""
    await migrated(dynamodb_url)
    before = await ask(dynamodb_url, "DescribeTimeToLive")
    assert before["TimeToLiveDescription"]["TimeToLiveStatus"] == "DISABLED"
    await asyncio.gather(*(migrated(dynamodb_url, 60_000) for _ in range(3)))
    said = (await ask(dynamodb_url, "DescribeTimeToLive"))["TimeToLiveDescription"]
    assert (said["TimeToLiveStatus"], said["AttributeName"]) == ("ENABLED", "x")
    await migrated(dynamodb_url)  # What was dated still goes, as docs/stores/dynamodb.md says.
    after = await ask(dynamodb_url, "DescribeTimeToLive")
    assert after["TimeToLiveDescription"]["TimeToLiveStatus"] == "ENABLED"


async def test_another_attribute_for_the_time_to_live_is_refused(dynamodb_url):
    """Somebody's own time to live would drop the wrong things, or nothing."""
    await migrated(dynamodb_url)
    other = {"Enabled": True, "AttributeName": "other"}
    await ask(dynamodb_url, "UpdateTimeToLive", TimeToLiveSpecification=other)
    with pytest.raises(ConfigurationError, match="drops items by other, and must do so by x"):
        await migrated(dynamodb_url, 60_000)


async def test_a_table_of_the_version_before_is_taken_as_it_is(dynamodb_url):
    """Its timers, without a retention of their own, are read, counted, changed and removed."""
    await migrated(dynamodb_url)
    id_ = "01977420-dc00-7007-8000-000000000001"
    state = '["default","default",null,1750000000000,1750000000000,1750000000000,null,null,{}]'
    spec = '{"callback":{"type":"http","url":"https://shop.example/"},"correlation_id":"c"}'
    waking = f"001750000000000{id_}"
    item = {"pk": "007", "sk": id_, "s": "pending", "r": state, "b": spec, "w": waking, "m": "m"}
    written = {**{name: {"S": value} for name, value in item.items()}, "v": {"N": "1"}}
    await ask(dynamodb_url, "PutItem", Item={"pk": {"S": "shards"}, "sk": {"S": "007"}})
    await ask(dynamodb_url, "PutItem", Item={**written, "y": {"N": "2048"}})
    store = DynamoStore(Address.parse(dynamodb_url))
    await store.migrate()
    [timer] = await store.get([id_])
    assert timer is not None
    assert timer.spec.retention is None
    assert await store.count("default") == [Count("default", Status.PENDING, 1)]
    assert await store.apply([claim_of(timer)]) == [True]
    assert await store.remove([timer]) == [False]
    assert await store.remove([claimed(timer)]) == [True]
    await store.close()


def without_index(wanted):
    del wanted["LocalSecondaryIndexes"]
    wanted["AttributeDefinitions"].pop()


def with_other_keys(wanted):
    del wanted["LocalSecondaryIndexes"]
    wanted["AttributeDefinitions"] = wanted["AttributeDefinitions"][:1]
    wanted["KeySchema"] = wanted["KeySchema"][:1]


def with_less_in_the_index(wanted):
    wanted["LocalSecondaryIndexes"][0]["Projection"] = {"ProjectionType": "KEYS_ONLY"}


def with_numbers(wanted):
    wanted["AttributeDefinitions"][2]["AttributeType"] = "N"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (without_index, "it must have a local secondary index due by pk and w"),
        (with_other_keys, "its keys must be pk and sk"),
        (with_less_in_the_index, "its index due must include s, v, y"),
        (with_numbers, "pk, sk and w must be of type S"),
    ],
)
async def test_somebody_elses_table_is_refused(dynamodb_url, spoil, message):
    """A table that is not one of ours is named, with what is wrong about it."""
    address = Address.parse(dynamodb_url)
    wanted = json.loads(json.dumps(definition(address.table, None)))
    spoil(wanted)
    await ask(dynamodb_url, "CreateTable", **wanted)
    with pytest.raises(ConfigurationError, match=f"{address.table} is not .*: {message}"):
        await migrated(dynamodb_url)


async def test_who_may_not_create_it_is_told_how():
    """The command is in the message, whole."""
    async with impostor() as server:
        server.will_say(
            refusal("ResourceNotFoundException"), refusal("AccessDeniedException", "no")
        )
        store = DynamoStore(server.address)
        with pytest.raises(ConfigurationError, match="aws dynamodb create-table") as caught:
            await store.migrate()
        await store.close()
    told = str(caught.value).partition("--cli-input-json '")[2].rstrip("'")
    assert json.loads(told) == definition("table", None)


async def test_wrong_credentials_are_no_riddle():
    """What AWS says of them comes with words for people."""
    async with impostor() as server:
        server.will_say(refusal("UnrecognizedClientException", "The security token is invalid"))
        store = DynamoStore(server.address)
        with pytest.raises(StoreUnavailable, match="access key is not known"):
            await store.migrate()
        await store.close()
