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

IN_A_ROUND = 400
WARM_UP = 2  # rounds until all pools and caches are as large as they will be
ROUNDS = 6
ROUNDS_TRACED = 2  # fewer, as each takes five times as long
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
            await _fire(node, WARM_UP)
            blocks = await _grown(node, ROUNDS, sys.getallocatedblocks)
            tracemalloc.start()
            await _fire(node, WARM_UP)  # what was allocated before, and is replaced, is not known
            held = await _grown(node, ROUNDS_TRACED, lambda: tracemalloc.get_traced_memory()[0])
            lines = tracemalloc.take_snapshot().statistics("lineno")
            tracemalloc.stop()
        await store.close()
    return Growth(blocks, held, [str(line) for line in lines[:HEAVIEST]])


async def _grown(node: SealedNode, rounds: int, look: Callable[[], int]) -> float:
    """By how much each timer lets something grow."""
    gc.collect()
    before = look()
    await _fire(node, rounds)
    gc.collect()
    return (look() - before) / (rounds * IN_A_ROUND)


async def _fire(node: SealedNode, rounds: int) -> None:
    for turn in range(rounds):
        await node.become_due(IN_A_ROUND, "nats" if turn % 2 else "http")
        await node.fire(IN_A_ROUND)
