"""Connections of ours, and of a stranger: nats-py, which no part of Duetime uses."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import nats
import pytest
import uvloop
from nats.aio.client import Client

from duetime.clock import SystemClock
from duetime.errors import NatsUnavailable
from duetime.nats.connection import Connection
from tests.servers.fixtures import OwnServer
from tests.servers.nats import NatsServer, own_name
from tests.waiting import eventually, until

Connected = Callable[..., Awaitable[Connection]]
Stranger = Callable[..., Awaitable[Client]]
Impostor = Callable[..., Awaitable[str]]


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Sockets are the event loop's business: that is uvloop's, or asyncio's where it is missing."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


class Heard(list[Any]):
    """What a subscription has brought, of ours or of nats-py's."""

    async def are(self, count: int) -> "Heard":
        """Wait until there are so many."""
        await until(lambda: len(self) >= count, f"{count} messages", every=0.005)
        return self

    @property
    def data(self) -> list[bytes]:
        return [message.data for message in self]


@pytest.fixture
def url(server_url: Callable[[str], str]) -> str:
    """Where the server is that all tests share."""
    return server_url("nats")


@pytest.fixture
def own(own_server: OwnServer) -> NatsServer:
    """A server that the test may do anything to."""
    return own_server("nats")


@pytest.fixture
def subject() -> str:
    """One that nobody else uses."""
    return own_name()


@pytest.fixture
async def connected() -> AsyncIterator[Connected]:
    """Makes connections, which are closed at the end."""
    async with AsyncExitStack() as stack:

        async def connect(*urls: str, clock: Any = None, **options: Any) -> Connection:
            made = Connection(urls, clock or SystemClock(), **options)
            stack.push_async_callback(made.close)
            await made.connect()
            return made

        yield connect


@pytest.fixture
async def stranger() -> AsyncIterator[Stranger]:
    """Makes connections by nats-py."""
    async with AsyncExitStack() as stack:

        async def connect(url: str, **options: Any) -> Client:
            options.setdefault("allow_reconnect", False)
            client = await nats.connect(url, **options)
            stack.push_async_callback(client.close)
            return client

        yield connect


async def listening(client: Client, subject: str, **options: Any) -> Heard:
    """What a stranger hears on a subject, from now on."""
    heard = Heard()

    async def hear(message: Any) -> None:
        heard.append(message)

    await client.subscribe(subject, cb=hear, **options)
    await heard_of(client)
    return heard


async def heard_of(client: Client) -> None:
    """Wait until the server knows what a stranger listens to.

    Its first PING overtakes what it has not written yet; by the second, all of it is written.
    """
    await client.flush()
    await client.flush()


async def answering(ours: Connection) -> None:
    """Wait until a connection has a server that answers: a loss may not have been noticed yet."""

    async def look() -> bool:
        try:
            await ours.flush(5)
        except NatsUnavailable:
            return False
        return True

    await eventually(look, "a server that answers", every=0.01)


@pytest.fixture
async def impostor() -> AsyncIterator[Impostor]:
    """Starts something that says this to whoever connects, and then that, and then listens."""
    async with AsyncExitStack() as stack:

        async def start(says: bytes, then: bytes = b"") -> str:
            async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                try:
                    writer.write(says)
                    await writer.drain()
                    await reader.readline()
                    writer.write(then)
                    while await reader.read(65536):
                        pass
                except OSError:
                    pass
                finally:
                    writer.close()

            server = await asyncio.start_server(talk, "127.0.0.1", 0)
            stack.callback(server.close)
            return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

        yield start
