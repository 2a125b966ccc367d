"""The bare driver of Cassandra inserts timers and does nothing else: the ceiling of batch creates.

Same rows, same durability as the store. ``conditional`` has the store's conditions too, without
which a key could be taken twice: servers then agree on each batch. ``plain`` writes over whatever
is there.

Run as ``python -m bench.bare_cassandra HOW COUNT SIZE`` with DATABASE_URL set, on a keyspace that
is migrated; so many timers are in a batch, and a batch is of one shard; it prints timers a second.
"""

import asyncio
import os
import sys
import time
from collections.abc import Iterable

import uvloop

from bench.backlog import far_timers
from duetime.model import Timer
from duetime.stores import Insert
from duetime.stores.cassandra.address import Address
from duetime.stores.cassandra.pieces import Ground, Insertion
from duetime.stores.cassandra.session import Session, Step, open_session

AT_ONCE = 64  # batches under way
_OPEN = "INSERT INTO duetime.shards (everything, shard) VALUES (0, ?)"

WAYS = {"conditional": True, "plain": False}


def batches(
    timers: Iterable[Timer], size: int, *, is_conditional: bool
) -> dict[int, list[list[Step]]]:
    """What to write, by shard: batches of so many timers each."""
    by_shard: dict[int, list[list[Step]]] = {}
    for number, timer in enumerate(timers):
        parts = by_shard.setdefault(timer.shard, [[]])
        if number and len(parts[-1]) >= 3 * size:
            parts.append([])
        steps = Insertion(Insert(timer), None).steps(Ground(timer.shard))
        parts[-1] += [step if is_conditional else _unconditional(step) for step in steps]
    return by_shard


def _unconditional(step: Step) -> Step:
    statement, values = step
    return statement.partition(" IF ")[0], values


async def write(session: Session, by_shard: dict[int, list[list[Step]]]) -> None:
    """Write the batches of each shard one after the other, and of many shards at once."""
    room = asyncio.Semaphore(AT_ONCE)

    async def write_shard(shard: int, parts: list[list[Step]]) -> None:
        await session.run(_OPEN, (shard,))
        for part in parts:
            async with room:
                await session.run_batch(part)

    await asyncio.gather(*(write_shard(shard, parts) for shard, parts in by_shard.items()))


async def rows_per_second(address: Address, way: str, count: int, size: int) -> float:
    """Insert so many timers, and tell how fast that was."""
    # Each shard gets a share of what would be one transaction elsewhere.
    by_shard = batches(far_timers(count, sink_port=9), size, is_conditional=WAYS[way])
    driver = await asyncio.to_thread(open_session, address)
    session = Session(driver, address.keyspace)
    started = time.perf_counter()
    await write(session, by_shard)
    seconds = time.perf_counter() - started
    await asyncio.to_thread(driver.cluster.shutdown)
    return count / seconds


async def main() -> None:
    """Do what the arguments say."""
    way, count, size = sys.argv[1:]
    address = Address.parse(os.environ["DATABASE_URL"])
    print(await rows_per_second(address, way, int(count), int(size)))


if __name__ == "__main__":
    uvloop.run(main())
