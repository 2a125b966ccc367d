"""The bare driver inserts timers and does nothing else: the ceiling of batch creates.

Same tables, same indexes, same durability as the store. Each engine knows its own ``WAYS``, and the
first is the one by which Duetime is measured.

Run as ``python -m bench.bare ENGINE WAY COUNT SIZE`` with DATABASE_URL set, on a database that is
migrated; so many timers are in a transaction, or in what the engine has instead; it prints timers a
second.
"""

import os
import sys
from importlib import import_module

from duetime.benching.process import started


async def timers_per_second(engine: str, way: str, url: str, count: int, size: int) -> float:
    """Insert so many timers in a process of its own, and tell how fast that was."""
    arguments = ("-m", "bench.bare", engine, way, str(count), str(size))
    async with started(arguments, {"DATABASE_URL": url}) as bare:
        rate = float(await bare.line())
        await bare.ended()
    return rate


def main() -> None:
    """Do what the arguments say."""
    engine, way, count, size = sys.argv[1:]
    insert = import_module(f"bench.databases.{engine}").WAYS[way]
    print(insert(os.environ["DATABASE_URL"], int(count), int(size)))


if __name__ == "__main__":
    main()
