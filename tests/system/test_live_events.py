"""The live stream of real processes: read, broken off, gone on with, and ended with its node."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from duetime.client import AsyncClient
from tests.api.listening import Sse, parse
from tests.servers.fixtures import OwnServer
from tests.system.service import API_KEY, ServiceProcess, running_service
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.promise("events-heard")]

BODY = {"delay": "1h", "callback": {"type": "http", "url": "http://127.0.0.1:9/"}}


class Curl:
    """Somebody who reads the stream off a socket, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._text = ""
        self.is_over = False  # it has said that it is

    async def head(self) -> str:
        async with asyncio.timeout(PATIENCE):
            return (await self._reader.readuntil(b"\r\n\r\n")).decode()

    async def heard(self, count: int) -> list[Sse]:
        """Wait for so many events."""
        async with asyncio.timeout(PATIENCE):
            while len(self.events) < count:
                assert await self._chunk(), self._text
        return self.events

    async def rest(self) -> list[Sse]:
        """Wait for the end."""
        async with asyncio.timeout(PATIENCE):
            while await self._chunk():
                pass
        return self.events

    @property
    def events(self) -> list[Sse]:
        return [each for each in parse(self._text) if each.data is not None]

    @property
    def last_id(self) -> str:
        return [each.id for each in parse(self._text) if each.id][-1]

    async def _chunk(self) -> bool:
        line = await self._reader.readline()
        size = int(line or b"0", 16)
        content = await self._reader.readexactly(size + 2) if line else b""
        self.is_over = bool(line) and not size
        self._text += content[:-2].decode()
        return size > 0

    def break_off(self) -> None:
        """Hang up, as if by a power cut."""
        self._writer.transport.abort()


@asynccontextmanager
async def reading(
    service: ServiceProcess, last_id: str = "", query: str = ""
) -> AsyncIterator[Curl]:
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    resume = f"Last-Event-ID: {last_id}\r\n" if last_id else ""
    writer.write(
        f"GET /events{query} HTTP/1.1\r\nHost: x\r\nX-API-Key: {API_KEY}\r\n{resume}\r\n".encode()
    )
    curl = Curl(reader, writer)
    try:
        assert (await curl.head()).startswith("HTTP/1.1 200 OK")
        yield curl
    finally:
        writer.transport.abort()


async def create(service: ServiceProcess) -> str:
    made = await service.call("POST", "/timers", BODY)
    assert made.status == 201
    return made.data["id"]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[ServiceProcess]:
    async with running_service(tmp_path, OUTBOX="on") as node:
        yield node


async def test_from_any_node_the_whole_cluster(tmp_path: Path):
    """Two processes on one file: each tells of what the other did, in order for each timer."""
    async with (
        running_service(tmp_path, OUTBOX="on") as one,
        running_service(tmp_path, OUTBOX="on") as other,
        reading(one) as here,
        reading(other) as there,
    ):
        timer = await create(one)
        assert (await other.call("POST", f"/timers/{timer}/pause")).status == 200
        assert (await one.call("POST", f"/timers/{timer}/resume")).status == 200
        assert (await other.call("DELETE", f"/timers/{timer}")).status == 200
        for curl in (here, there):
            events = await curl.heard(4)
            assert [each.type for each in events] == ["created", "paused", "resumed", "canceled"]
            assert [each.data["version"] for each in events] == [1, 2, 3, 4]


async def test_a_reader_that_breaks_off_and_comes_back(node: ServiceProcess):
    """It goes on exactly where it was; the node does not mind."""
    async with reading(node) as curl:
        first = await create(node)
        assert [each.data["timer"] for each in await curl.heard(1)] == [first]
        curl.break_off()
    missed = await create(node)
    async with reading(node, curl.last_id) as again:
        assert [each.data["timer"] for each in await again.heard(1)] == [missed]
    assert "Traceback" not in node.log.read_text()


@pytest.mark.promise("clean-stop")
async def test_a_node_that_stops_ends_its_streams_at_once(node: ServiceProcess):
    """With a last word; and it does not wait for readers that would stay for ever."""
    async with reading(node) as curl, reading(node, query="?group=none") as quiet:
        await create(node)
        await curl.heard(1)
        since = time.monotonic()
        assert await node.stop() == 0
        assert time.monotonic() - since < 10  # DRAIN_TIMEOUT is 30 s
        for each in (curl, quiet):
            last = (await each.rest())[-1]
            assert last.type == "error"
            assert "this node is stopping" in last.data["message"]
            assert each.is_over
    log = node.log.read_text()
    assert "Traceback" not in log
    assert "ASGI" not in log


async def test_a_client_follows_over_a_crash(node: ServiceProcess):
    """A node that is killed and started again: every event, each once."""
    heard: list[str] = []

    async def follow() -> None:
        async with AsyncClient(f"http://127.0.0.1:{node.port}", api_key=API_KEY) as client:
            async for event in client.events(type=["created"]):
                heard.append(event["timer"])  # noqa: PERF401 - it has no end

    made = []
    following = asyncio.create_task(follow())

    async def has_begun() -> bool:
        made.append(await create(node))
        return bool(heard)

    await eventually(has_begun, "the first event", every=0.2)
    made = made[made.index(heard[0]) :]
    for _ in range(2):
        made += [await create(node) for _ in range(5)]
        await node.kill()
        await node.start()
        made += [await create(node) for _ in range(5)]

    async def has_all() -> bool:
        return set(made) <= set(heard)

    await eventually(has_all, "all events")
    following.cancel()
    assert len(heard) == len(set(heard))


async def test_a_reader_that_takes_nothing(node: ServiceProcess):
    """It delays nobody else, and not the end of the node for long."""
    stuck, writer = await asyncio.open_connection("127.0.0.1", node.port)
    writer.write(f"GET /events HTTP/1.1\r\nHost: x\r\nX-API-Key: {API_KEY}\r\n\r\n".encode())
    await stuck.readuntil(b"\r\n\r\n")
    writer.transport.pause_reading()
    async with reading(node) as curl:
        batch = {"timers": [{**BODY, "tags": ["t" * 100]} for _ in range(500)]}
        for _ in range(8):
            assert (await node.call("POST", "/timers/batch", batch)).data["created"] == 500
        assert len(await curl.heard(4_000)) == 4_000
    writer.transport.abort()


async def test_all_that_is_kept(node: ServiceProcess):
    """Without following it ends by itself, and says so."""
    made = [await create(node) for _ in range(3)]

    async def are_told() -> bool:
        async with reading(node, query="?follow=false") as curl:
            events = await curl.rest()
            assert curl.is_over
            assert events[-1].type == "end"
            return [each.data["timer"] for each in events[:-1]] == made

    await eventually(are_told, "all of them", every=0.2)


async def test_with_nats_over_crashes_of_it_and_of_nodes(tmp_path: Path, own_server: OwnServer):
    """Whoever follows hears every event, each timer in order, whatever goes and comes back."""
    nats = own_server("nats")
    settings = {"OUTBOX": "on", "NATS_URL": nats.url(), "CLAIM_TTL": "1s"}
    nodes = [ServiceProcess(tmp_path, **settings) for _ in range(2)]
    heard: dict[str, list[int]] = {}

    async def follow() -> None:
        async with AsyncClient(f"http://127.0.0.1:{nodes[0].port}", api_key=API_KEY) as client:
            async for event in client.events(tag="mine", type=["created", "paused", "canceled"]):
                heard.setdefault(event["timer"], []).append(event["version"])

    async def work(count: int) -> list[str]:
        made = []
        for _ in range(count):
            one, other = nodes
            timer = (await other.call("POST", "/timers", {**BODY, "tags": ["mine"]})).data["id"]
            assert (await one.call("POST", f"/timers/{timer}/pause")).status == 200
            assert (await other.call("DELETE", f"/timers/{timer}")).status == 200
            made.append(timer)
        return made

    try:
        for node in nodes:
            await node.start()
        following = asyncio.create_task(follow())

        async def has_begun() -> bool:
            await work(1)
            return bool(heard)

        await eventually(has_begun, "the first event", every=0.2)
        made = await work(5)
        nats.crash()
        made += await work(5)
        nats.start()
        made += await work(5)
        await nodes[0].kill()
        await nodes[0].start()
        made += await work(5)

        async def has_all() -> bool:
            return all(len(heard.get(timer, ())) >= 3 for timer in made)

        await eventually(has_all, "all events")
        following.cancel()
        assert {timer: heard[timer] for timer in made} == {timer: [1, 2, 3] for timer in made}
        for node in nodes:
            assert await node.stop() == 0
            assert "Traceback" not in node.log.read_text()
    finally:
        for node in nodes:
            await node.end_if_running()


async def test_with_nats_going_on_at_another_node_is_exact(tmp_path: Path, own_server: OwnServer):
    """An id of one node is good at the other, and nothing comes twice."""
    nats = own_server("nats")
    settings = {"OUTBOX": "on", "NATS_URL": nats.url(), "CLAIM_TTL": "1s"}
    async with (
        running_service(tmp_path, **settings) as one,
        running_service(tmp_path, **settings) as other,
    ):
        async with reading(one) as curl:
            first = await create(other)
            assert [each.data["timer"] for each in await curl.heard(1)] == [first]
        second = await create(one)
        async with reading(other, curl.last_id) as curl:
            assert [each.data["timer"] for each in await curl.heard(1)] == [second]
