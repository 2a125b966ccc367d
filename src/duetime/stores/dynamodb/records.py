"""Records: small versioned documents, all in one partition."""

from base64 import b64decode, b64encode

from duetime.stores import Record
from duetime.stores.dynamodb import keys
from duetime.stores.dynamodb.calls import Calls, Item
from duetime.stores.dynamodb.items import integer, new_mark, text
from duetime.stores.dynamodb.keys import Place
from duetime.stores.dynamodb.pages import pages


async def read(calls: Calls, kind: str) -> list[Record]:
    """Every document of a kind, by name."""
    found: list[Record] = []
    async for page in pages(
        calls,
        None,
        KeyConditionExpression="pk = :pk AND begins_with(sk, :kind)",
        ExpressionAttributeValues={":pk": text(keys.RECORDS), ":kind": text(f"{kind}\0")},
    ):
        found += [_record(kind, item) for item in page]
    return sorted(found, key=lambda record: record.name)


async def put(calls: Calls, old: Record | None, new: Record | None) -> bool:
    """Store or remove a document if the stored one is still the old one."""
    record = new or old
    if record is None:
        return False
    place = place_of(record.kind, record.name)
    condition: dict[str, object] = {"ConditionExpression": "attribute_not_exists(pk)"}
    if old is not None:
        condition = {
            "ConditionExpression": "v = :v",
            "ExpressionAttributeValues": {":v": integer(old.version)},
        }
    if new is None:
        verdict = await calls.write("DeleteItem", Key=place.key, **condition)
        # After a lost answer: it is gone, as was asked.
        return verdict.is_written or (verdict.was_in_doubt and verdict.found is None)
    item: Item = {
        **place.key,
        "v": integer(new.version),
        "d": _data(new.data),
        "m": text(new_mark()),
    }
    verdict = await calls.write("PutItem", Item=item, **condition)
    found = verdict.found or {}
    return verdict.is_written or (verdict.was_in_doubt and found.get("m") == item["m"])


async def overwrite(calls: Calls, kind: str, name: str, data: bytes) -> None:
    """Store a document, whatever is there: who has read that one can no longer put another."""
    await calls.ask(
        "UpdateItem",
        Key=place_of(kind, name).key,
        UpdateExpression="SET v = if_not_exists(v, :none) + :one, d = :d, m = :m",
        ExpressionAttributeValues={
            ":none": integer(0),
            ":one": integer(1),
            ":d": _data(data),
            ":m": text(new_mark()),
        },
    )


def place_of(kind: str, name: str) -> Place:
    """Where a document lies."""
    return Place(keys.RECORDS, f"{kind}\0{name}")


def _data(data: bytes) -> dict[str, str]:
    return {"B": b64encode(data).decode()}


def _record(kind: str, item: Item) -> Record:
    return Record(
        kind=kind,
        name=item["sk"]["S"].partition("\0")[2],
        version=int(item["v"]["N"]),
        data=b64decode(item["d"]["B"]),
    )
