"""The proxy: it forwards, and breaks what passes just as it is told."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.cluster.proxy import Proxy, running_proxy
from tests.ports import free_port
from tests.waiting import until

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Echo:
    """A server that answers each line with its name and the line."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0
        self.heard: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                self.heard.append(line)
                writer.write(self.name.encode() + b" " + line)
        except ConnectionError:
            pass
        finally:
            writer.close()


class Commits:
    """Awaits the answers to lines that say commit."""

    def __init__(self) -> None:
        self._line = b""

    def asked(self, data: bytes) -> None:
        self._line = data

    def is_awaited(self, answer: bytes) -> bool:
        return self._line == b"commit\n"


@asynccontextmanager
async def running_echo(name: str) -> AsyncIterator[Echo]:
    echo = Echo(name)
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    echo.port = server.sockets[0].getsockname()[1]
    yield echo
    server.close()


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    async with running_echo("first") as echo:
        yield echo


@pytest.fixture
async def proxy(echo: Echo) -> AsyncIterator[Proxy]:
    async with running_proxy(echo.port, Commits) as proxy:
        yield proxy


async def connect(proxy: Proxy) -> Streams:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


async def ask(streams: Streams, line: bytes) -> bytes:
    reader, writer = streams
    writer.write(line)
    return await reader.readline()


async def test_forwards(proxy: Proxy):
    """What is sent arrives, and the answer comes back; a connection that is ended is ended."""
    streams = await connect(proxy)
    assert await ask(streams, b"hello\n") == b"first hello\n"
    assert await ask(streams, b"again\n") == b"first again\n"
    streams[1].write_eof()
    assert await streams[0].read() == b""
    streams[1].close()


async def test_cut(proxy: Proxy):
    """A cut resets the connections that there are, and new ones work."""
    streams = await connect(proxy)
    await ask(streams, b"hello\n")
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        await streams[0].read()
    streams[1].close()
    streams = await connect(proxy)
    assert await ask(streams, b"again\n") == b"first again\n"
    streams[1].close()


async def test_refuse(proxy: Proxy):
    """New connections are refused, old ones go on, and the same port takes them again later."""
    old = await connect(proxy)
    await ask(old, b"hello\n")
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        await connect(proxy)
    assert await ask(old, b"still\n") == b"first still\n"
    proxy.accept()
    new = await connect(proxy)
    assert await ask(new, b"again\n") == b"first again\n"
    old[1].close()
    new[1].close()


@pytest.mark.parametrize("turns", range(8))
async def test_cut_while_connecting(proxy: Proxy, turns: int):
    """However far a connection has come when it is cut, its other side learns of it."""
    with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
        for _ in range(turns):
            await asyncio.sleep(0)
        proxy.refuse()
        proxy.cut()
        connection.setblocking(False)
        with pytest.raises(ConnectionResetError):
            await asyncio.get_running_loop().sock_recv(connection, 1)


async def test_stall(proxy: Proxy, echo: Echo):
    """Nothing passes and nothing is closed; what was held back passes afterwards."""
    streams = await connect(proxy)
    await ask(streams, b"hello\n")
    proxy.stall()
    answer = asyncio.create_task(ask(streams, b"waiting\n"))
    await until(lambda: proxy.held_back, "the line to be held back")
    assert echo.heard == [b"hello\n"]
    assert not answer.done()
    proxy.flow()
    assert await answer == b"first waiting\n"
    streams[1].close()


async def test_dropped_answer(proxy: Proxy, echo: Echo):
    """The target does what was asked; the answer never comes, and the connection is reset."""
    streams = await connect(proxy)
    await ask(streams, b"hello\n")
    assert await ask(streams, b"commit\n") == b"first commit\n"
    proxy.drop_answers()
    assert await ask(streams, b"begin\n") == b"first begin\n"
    with pytest.raises(ConnectionResetError):
        await ask(streams, b"commit\n")
    assert echo.heard == [b"hello\n", b"commit\n", b"begin\n", b"commit\n"]
    assert proxy.dropped == 1
    streams[1].close()
    proxy.pass_answers()
    streams = await connect(proxy)
    assert await ask(streams, b"commit\n") == b"first commit\n"
    streams[1].close()


async def test_move(proxy: Proxy):
    """After a move the old connections are cut, and new ones go to the new address."""
    async with running_echo("second") as second:
        streams = await connect(proxy)
        await ask(streams, b"hello\n")
        proxy.move_to("127.0.0.1", second.port)
        with pytest.raises(ConnectionResetError):
            await streams[0].read()
        streams[1].close()
        streams = await connect(proxy)
        assert await ask(streams, b"hello\n") == b"second hello\n"
        streams[1].close()


async def test_target_gone(proxy: Proxy):
    """Where nobody listens, the connection is reset."""
    proxy.move_to("127.0.0.1", free_port())
    streams = await connect(proxy)
    with pytest.raises(ConnectionResetError):
        await streams[0].read()
    streams[1].close()


async def test_close(echo: Echo):
    """A proxy that is closed has cut its connections, also those that it held back."""
    async with running_proxy(echo.port, Commits) as proxy:
        streams = await connect(proxy)
        await ask(streams, b"hello\n")
        proxy.stall()
        streams[1].write(b"waiting\n")
        await until(lambda: proxy.held_back, "the line to be held back")
    with pytest.raises(ConnectionResetError):
        await streams[0].read()
    assert echo.heard == [b"hello\n"]
    streams[1].close()
