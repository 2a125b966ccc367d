"""Growth: what stays in Python's memory of timers that were fired, which should be nothing."""

import gc
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from duetime.stores.sqlite.store import SqliteStore
from tests.guard.sealed_node import SealedNode, sealed

IN_A_ROUND = 500
WARM_UP = 4  # rounds until all pools and caches are as large as they will be
ROUNDS = 6
TRACED = 250  # in a round while memory is traced, which takes five times as long
ROUNDS_TRACED = 2
HEAVIEST = 8  # lines of code that are told of


class Growth(NamedTuple):
    """What each fired timer has left behind."""

    blocks_each: float  # objects, nearly: a large one may have its memory elsewhere
    bytes_each: float
    lines: list[str]  # where most of what was held in the end was allocated


async def growth() -> Growth:
    """Fire thousands of timers, every other round of them posted, and see what stays."""
    with tempfile.TemporaryDirectory(prefix="duetime-guard-") as folder:
        store = SqliteStore(Path(folder) / "duetime.db", synchronous="off")
        await store.migrate()
        async with sealed(store) as node:
            await _fire(node, WARM_UP, IN_A_ROUND)
            blocks = await _grown(node, ROUNDS, IN_A_ROUND, sys.getallocatedblocks)
            tracemalloc.start()
            # What was allocated before, and is replaced now, is not known.
            await _fire(node, ROUNDS_TRACED, TRACED)
            held = await _grown(node, ROUNDS_TRACED, TRACED, _traced)
            lines = tracemalloc.take_snapshot().statistics("lineno")
            tracemalloc.stop()
        await store.close()
    return Growth(blocks, held, [str(line) for line in lines[:HEAVIEST]])


async def _grown(node: SealedNode, rounds: int, count: int, look: Callable[[], int]) -> float:
    """By how much each timer lets something grow."""
    gc.collect()
    before = look()
    await _fire(node, rounds, count)
    gc.collect()
    return (look() - before) / (rounds * count)


async def _fire(node: SealedNode, rounds: int, count: int) -> None:
    for turn in range(rounds):
        await node.become_due(count, "nats" if turn % 2 else "http")
        await node.fire(count)


def _traced() -> int:
    return tracemalloc.get_traced_memory()[0]
