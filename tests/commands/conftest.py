"""What the tests of commands share: the API over HTTP, and beside it the same over a real NATS.

Whoever commands does it by nats-py, which no part of Duetime uses.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from duetime.clock import Clock, SystemClock
from duetime.commands.answering import Answering
from duetime.commands.desk import Desk
from duetime.commands.prefixes import prefixes
from duetime.commands.queue import Queue
from duetime.nats.connection import Connection
from duetime.nats.jetstream import JetStream
from duetime.stores import Store
from duetime.stores.memory import MemoryStore
from duetime.testing import FakeClock
from tests.api.client import KEY, Api
from tests.api.conftest import MakeApi, make_api, sender
from tests.commands.callers import Queued, Served
from tests.servers.fixtures import OwnServer
from tests.servers.nats import own_name

__all__ = ["make_api", "sender"]  # fixtures

NOW = 1_761_474_600_000  # 2025-10-26T10:30:00Z

Serve = Callable[..., Awaitable[Served]]
Enqueue = Callable[..., Awaitable[Queued]]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def url(server_url: Callable[[str], str]) -> str:
    """Where the server is that all tests share."""
    return server_url("nats")


@pytest.fixture
async def stack(own_server: OwnServer) -> AsyncIterator[AsyncExitStack]:
    """What is to be closed at the end, before servers that a test has of its own."""
    async with AsyncExitStack() as stack:
        yield stack


async def connected(stack: AsyncExitStack, url: str) -> Connection:
    """A connection of ours."""
    connection = Connection([url], SystemClock())
    stack.push_async_callback(connection.close)
    await connection.connect()
    return connection


async def stranger(stack: AsyncExitStack, url: str, **options: Any) -> Client:
    """A connection of somebody else's."""
    client = await nats.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, **options)
    stack.push_async_callback(client.close)
    return client


@pytest.fixture
def serve(url: str, stack: AsyncExitStack, make_api: MakeApi) -> Serve:
    """Answers commands from now on, over a store of the test's own if it has one."""

    async def start(
        store: Store | None = None,
        *,
        trusts: Any = "keys",
        tenants: tuple[tuple[str, str], ...] = (),
        max_body: int = 1 << 20,
        at: str = "",
        stranger_at: str = "",
        prefix: str = "",
        api: Api | None = None,
        **options: Any,
    ) -> Served:
        api = api or make_api(store or MemoryStore(), max_body=max_body)
        prefix = prefix or own_name()
        connection = await connected(stack, at or url)
        answering = Answering(
            connection,
            Desk(api.service, KEY, trusts=trusts, max_body=max_body),
            SystemClock(),
            name=prefix,
            prefixes=prefixes(prefix, tenants),
            **options,
        )
        await answering.start()
        client = await stranger(stack, stranger_at or at or url)
        return Served(api, client, connection, answering, prefix)

    return start


@pytest.fixture
async def served(serve: Serve) -> Served:
    """Commands, answered to whoever has a key."""
    return await serve()


@pytest.fixture
def enqueue(url: str, stack: AsyncExitStack, make_api: MakeApi) -> Enqueue:
    """Has a queue, whose steps are called by hand."""

    async def start(
        store: Store | None = None,
        *,
        trusts: Any = "keys",
        tenants: tuple[tuple[str, str], ...] = (),
        at: str = "",
        names: tuple[str, str] | None = None,
        max_body: int = 1 << 20,
        clock: Clock | None = None,
        **options: Any,
    ) -> Queued:
        api = make_api(store or MemoryStore())
        prefix, stream = names or (own_name(), own_name())
        connection = await connected(stack, at or url)
        queue = Queue(
            connection,
            JetStream(connection, SystemClock()),
            Desk(api.service, KEY, trusts=trusts, max_body=max_body),
            clock or SystemClock(),
            stream=stream,
            prefixes=prefixes(prefix, tenants),
            wait=0.05,
            **options,
        )
        client = await stranger(stack, at or url)
        queued = Queued(api, client, connection, queue, (prefix, stream))
        if names is None and not at:
            stack.push_async_callback(queued.jetstream.delete_stream, stream)
        await queue.step()  # makes the stream
        return queued

    return start
