"""The bare driver of MongoDB inserts timers and does nothing else: the ceiling of batch creates.

Same collection, same indexes, same durability as the store; ``insert_many``, as one would write it
by hand. Run as ``python -m bench.bare_mongodb COUNT SIZE`` with DATABASE_URL set, on a database
that is migrated; so many documents are in a command, on one connection; it prints documents a
second.
"""

import asyncio
import os
import sys
import time

from bench.backlog import far_timers
from duetime.stores import Insert
from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.connection import connect, database_of
from duetime.stores.mongodb.documents import to_document


async def documents_per_second(address: Address, count: int, size: int) -> float:
    """Insert so many timers, and tell how fast that was."""
    documents = [to_document(Insert(timer)) for timer in far_timers(count, sink_port=9)]
    async with connect(address) as client:
        timers = database_of(client, address)["timers"]
        await timers.find_one()  # connected
        started = time.perf_counter()
        for at in range(0, count, size):
            await timers.insert_many(documents[at : at + size], ordered=False)
        seconds = time.perf_counter() - started
    return count / seconds


async def main() -> None:
    """Do what the arguments say."""
    count, size = map(int, sys.argv[1:])
    print(await documents_per_second(Address.parse(os.environ["DATABASE_URL"]), count, size))


if __name__ == "__main__":
    asyncio.run(main())
