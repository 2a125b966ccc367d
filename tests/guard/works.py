"""The works: what a user has Duetime do many times over, each with its own way to be done once."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from duetime.stores.sqlite.store import SqliteStore
from tests.guard.sealed_node import SealedNode, body, sealed
from tests.guard.tally import Tally, by_function, new_tally


class Work(NamedTuple):
    """A piece of work on so many timers."""

    count: int
    prepare: Callable[[SealedNode, int], Awaitable[None]]
    do: Callable[[SealedNode, int], Awaitable[None]]


async def _nothing(_node: SealedNode, _count: int) -> None:
    pass


async def _create_one_by_one(node: SealedNode, count: int) -> None:
    text = body()
    for _ in range(count):
        await node.post("/timers", text)
    await node.service.audit.close()  # which gathers its lines otherwise


async def _create_in_a_batch(node: SealedNode, count: int) -> None:
    await node.create(count)
    await node.service.audit.close()


async def _http_due(node: SealedNode, count: int) -> None:
    await node.become_due(count, "http")


async def _nats_due(node: SealedNode, count: int) -> None:
    await node.become_due(count, "nats")


async def _fire(node: SealedNode, count: int) -> None:
    await node.fire(count)


WORKS = {
    "create-one-by-one": Work(100, _nothing, _create_one_by_one),
    "create-in-a-batch": Work(1_000, _nothing, _create_in_a_batch),
    "fire-http": Work(250, _http_due, _fire),
    "fire-posted": Work(250, _nats_due, _fire),
}


async def _tallied(work: Work, tally: Tally) -> None:
    """Do the work twice, and count the second time: then all that is made once has been."""
    with tempfile.TemporaryDirectory(prefix="duetime-guard-") as folder:
        store = SqliteStore(Path(folder) / "duetime.db", synchronous="off")
        await store.migrate()
        async with sealed(store) as node:
            await work.prepare(node, work.count)
            await work.do(node, work.count)
            await work.prepare(node, work.count)
            with tally.counting():
                await work.do(node, work.count)
        await store.close()


def tallied(name: str, loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> dict[str, Any]:
    """What each function does for a work, on so many timers."""
    work, tally = WORKS[name], new_tally()
    with tally.installed(), asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_tallied(work, tally))
    return {"count": work.count, "functions": by_function(tally)}
