"""Commands while nodes and servers are killed: nothing is lost, and nothing is done twice."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.errors import Error as NatsPyError

from duetime.clock import SystemClock, sleep
from duetime.stores.memory import MemoryStore
from duetime.stores.sqlite.store import SqliteStore
from tests.api.client import timer_body
from tests.commands.callers import Queued
from tests.commands.conftest import Enqueue, Serve
from tests.commands.test_queue import come_again, eventually_taken
from tests.servers.fixtures import OwnServer
from tests.servers.nats import own_name
from tests.waiting import PATIENCE, eventually, until

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.promise("never-lost", "one-timer-per-key")
async def test_a_node_is_killed_between_the_store_and_the_stream(
    enqueue: Enqueue, url: str, tmp_path: Path
):
    """A node killed after it has stored a create, and before it said so, leaves one timer."""
    names, file = (own_name(), own_name()), tmp_path / "duetime.db"
    node = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.commands.dying_node", str(file), url, *names, cwd=ROOT
    )
    store = SqliteStore(file)
    await store.migrate()
    queued = await enqueue(store, names=names)
    await queued.put(timer_body(name="once"))
    async with asyncio.timeout(PATIENCE):
        assert await node.wait() == -signal.SIGKILL
    [before] = await queued.timers()
    assert await queued.left() == 1
    await come_again(queued)
    await eventually_taken(queued)
    [after] = await queued.timers()
    assert after == before
    await queued.jetstream.delete_stream(queued.stream)
    await store.close()


@asynccontextmanager
async def taking(queued: Queued) -> AsyncIterator[None]:
    """Make passes all the while, as a node does."""

    async def passes() -> None:
        while True:
            pause = await queued.queue.step()
            await sleep(SystemClock(), min(pause, 0.1))

    task = asyncio.create_task(passes())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.promise("never-lost", "one-timer-per-key")
async def test_nats_is_killed_under_load(enqueue: Enqueue, own_server: OwnServer):
    """Every create that the stream has acknowledged becomes one timer, though NATS is killed."""
    server, store = own_server("nats"), MemoryStore()
    queued = await enqueue(store, at=server.url())
    stored: set[str] = set()

    async def put(number: int) -> None:
        try:
            await queued.put(timer_body(timer_id=f"t{number}"))
            stored.add(f"t{number}")
        except (NatsPyError, TimeoutError):
            pass  # nobody was told that it is there

    async with taking(queued):
        for kill in range(3):
            numbers = range(kill * 200, kill * 200 + 200)
            load = [asyncio.create_task(put(number)) for number in numbers]
            enough = len(stored) + 50
            await until(lambda enough=enough: len(stored) > enough, every=0.005)
            await asyncio.to_thread(server.crash)
            await asyncio.to_thread(server.start)
            for task in load:  # nats-py waits for an answer that never comes
                task.cancel()
            await asyncio.gather(*load, return_exceptions=True)
            await until(lambda: queued.client.is_connected and queued.connection.is_connected)

        async def are_there() -> bool:
            return stored <= {timer.timer_id for timer in store._timers.values()}

        await eventually(are_there, "every create that was acknowledged")
    assert len(stored) > 150
    assert len({timer.timer_id for timer in store._timers.values()}) == len(store._timers)


async def test_requests_are_answered_again_when_nats_is_back(serve: Serve, own_server: OwnServer):
    """After NATS was killed and started again, requests are answered as before."""
    server = own_server("nats")
    served = await serve(at=server.url())
    assert (await served.ask("create", timer_body())).status == 201
    await asyncio.to_thread(server.crash)
    await asyncio.to_thread(server.start)

    async def is_answered() -> bool:
        try:
            return (await served.ask("create", timer_body())).status == 201
        except NatsPyError:
            return False

    await eventually(is_answered, "an answer")
