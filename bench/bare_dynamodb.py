"""The bare driver of DynamoDB inserts timers and does nothing else: the ceiling of batch creates.

Same table, same index, same items as the store. ``put`` is PutItem under the condition that the key
is free, so many at once as the store has connections. ``batch`` is BatchWriteItem, 25 items in a
request, which knows no conditions and overwrites what is there.

Run as ``python -m bench.bare_dynamodb HOW COUNT SIZE`` with DATABASE_URL set, on a table that is
there; so many items are asked for together; it prints items a second.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

import uvloop

from bench.backlog import far_timers
from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.calls import Item
from duetime.stores.dynamodb.items import new_item
from duetime.stores.dynamodb.wire import Wire

WITHIN = 60.0
AT_ONCE = 25

Insert = Callable[[Wire, str, Sequence[Item]], Awaitable[object]]


async def put(wire: Wire, table: str, rows: Sequence[Item]) -> None:
    await asyncio.gather(
        *(
            wire.call(
                "PutItem",
                {
                    "TableName": table,
                    "Item": row,
                    "ConditionExpression": "attribute_not_exists(pk)",
                },
                WITHIN,
            )
            for row in rows
        )
    )


async def batch(wire: Wire, table: str, rows: Sequence[Item]) -> None:
    requests = [{"PutRequest": {"Item": row}} for row in rows]
    await asyncio.gather(
        *(
            wire.call(
                "BatchWriteItem", {"RequestItems": {table: requests[at : at + AT_ONCE]}}, WITHIN
            )
            for at in range(0, len(requests), AT_ONCE)
        )
    )


WAYS: dict[str, Insert] = {"put": put, "batch": batch}


async def rows_per_second(address: Address, insert: Insert, count: int, size: int) -> float:
    """Insert so many timers, and tell how fast that was."""
    rows = [new_item(timer) for timer in far_timers(count, sink_port=9)]
    wire = Wire(address, address.pool_size)
    started = time.perf_counter()
    for at in range(0, count, size):
        await insert(wire, address.table, rows[at : at + size])
    seconds = time.perf_counter() - started
    await wire.close()
    return count / seconds


async def main() -> None:
    """Do what the arguments say."""
    how, count, size = sys.argv[1:]
    address = Address.parse(os.environ["DATABASE_URL"])
    print(await rows_per_second(address, WAYS[how], int(count), int(size)))


if __name__ == "__main__":
    uvloop.run(main())
