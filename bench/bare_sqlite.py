"""The bare driver of SQLite inserts timers and does nothing else: the ceiling of batch creates.

Same table, same indexes, same durability as the store; ``executemany``, as one would write it by
hand. Run as ``python -m bench.bare_sqlite FILE COUNT SIZE``, with so many rows in a transaction; it
prints rows a second.
"""

import sys
import time
from pathlib import Path

from bench.backlog import far_timers
from bench.databases.sqlite import INSERTING
from duetime.stores.codec import to_columns
from duetime.stores.sqlite.file import open_writer


def rows_per_second(path: Path, count: int, size: int) -> float:
    """Insert so many rows, and tell how fast that was."""
    rows = [to_columns(timer) for timer in far_timers(count, sink_port=9)]
    connection = open_writer(path, "full")
    started = time.perf_counter()
    for at in range(0, count, size):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERTING, rows[at : at + size])
        connection.execute("COMMIT")
    seconds = time.perf_counter() - started
    connection.close()
    return count / seconds


if __name__ == "__main__":
    print(rows_per_second(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
