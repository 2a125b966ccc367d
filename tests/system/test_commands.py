"""Commands to a real node over a real NATS: by nats-py, in the words of docs/nats.md."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from tests.cluster.proxy import running_proxy
from tests.cluster.wires import at_port, port_of
from tests.servers.nats import own_name
from tests.system.service import API_KEY, ServiceProcess, running_service
from tests.waiting import PATIENCE, eventually, until

pytestmark = pytest.mark.slow

KEY = {"X-API-Key": API_KEY}


@pytest.fixture
def url(server_url: Callable[[str], str]) -> str:
    """Where the server is that all tests share."""
    return server_url("nats")


@asynccontextmanager
async def caller(url: str) -> AsyncIterator[Client]:
    client = await nats.connect(url)
    try:
        yield client
    finally:
        await client.close()


def body(**fields: Any) -> bytes:
    callback = {"type": "http", "url": "http://127.0.0.1:9/"}
    return json.dumps({"delay": "1h", "callback": callback, **fields}).encode()


async def ask(client: Client, subject: str, content: bytes) -> tuple[str, Any]:
    answer = await client.request(subject, content, timeout=PATIENCE, headers=KEY)
    return answer.headers["Duetime-Status"], json.loads(answer.data)["data"]


async def test_requests(url: str, tmp_path: Path):
    """A node that is told to answers over NATS, and what it made is there over HTTP."""
    prefix = own_name()
    settings = {"NATS_URL": url, "NATS_PREFIX": prefix, "NATS_COMMANDS": "keys"}
    async with running_service(tmp_path, **settings) as service, caller(url) as client:
        timers = f"{prefix}.default.timers"
        status, made = await ask(client, f"{timers}.create", body(timer_id="t1"))
        assert status == "201"
        assert (await service.call("GET", f"/timers/{made['id']}")).status == 200
        which = json.dumps({"timer_id": "t1"}).encode()
        assert (await ask(client, f"{timers}.get", which))[1]["id"] == made["id"]
        status, canceled = await ask(client, f"{timers}.cancel", which)
        assert (status, canceled["status"]) == ("200", "canceled")


class _Deaf:
    """Watches what a node says to NATS, and lets it hear nothing more once it has subscribed."""

    def __init__(self, fall_silent: Callable[[], None]) -> None:
        self._fall_silent = fall_silent

    def asked(self, data: bytes) -> None:
        if b".timers.create" in data:
            self._fall_silent()

    def is_awaited(self, _answer: bytes) -> bool:
        return False


async def test_a_node_that_is_ready_is_heard(url: str, tmp_path: Path):
    """A node says that it is ready when NATS has taken note of what it listens to, not before."""
    settings = {"NATS_PREFIX": own_name(), "NATS_COMMANDS": "keys"}
    async with running_proxy(port_of(url), lambda: _Deaf(proxy.stall)) as proxy:
        service = ServiceProcess(tmp_path, NATS_URL=at_port(url, proxy.port), **settings)
        starting = asyncio.create_task(service.start())
        try:
            await until(lambda: proxy.held_back == 1, "NATS to answer the node")
            asking = asyncio.create_task(service.call("GET", "/readyz"))
            is_answered, _ = await asyncio.wait({asking}, timeout=1)
            assert not is_answered
            proxy.flow()
            assert (await asking).status == 200
            await starting
            assert await service.stop() == 0
        finally:
            starting.cancel()
            await service.end_if_running()


@pytest.mark.promise("clean-stop")
async def test_a_node_that_stops_has_answered(url: str, tmp_path: Path):
    """Requests that were sent before a node was told to stop are answered before it ends."""
    prefix = own_name()
    settings = {"NATS_URL": url, "NATS_PREFIX": prefix, "NATS_COMMANDS": "keys"}
    async with running_service(tmp_path, **settings) as service, caller(url) as client:
        answers = await client.subscribe(inbox := client.new_inbox())
        for _ in range(200):
            await client.publish(f"{prefix}.default.timers.create", body(), inbox, headers=KEY)
        await client.flush()  # the server has them all, in front of what the node tells it
        assert await service.stop() == 0
        heard = [await answers.next_msg(PATIENCE) for _ in range(200)]
        assert {each.headers["Duetime-Status"] for each in heard} == {"201"}


async def test_a_stop_is_no_failure(url: str, tmp_path: Path):
    """A node that waits for creates and is told to stop does not complain that none come."""
    stream = own_name()
    settings = {"NATS_URL": url, "NATS_PREFIX": own_name(), "NATS_COMMANDS": "keys"}
    async with (
        running_service(tmp_path, **settings, COMMANDS_STREAM=stream) as service,
        caller(url) as client,
    ):

        async def is_made() -> bool:
            names = [info.config.name for info in await client.jetstream().streams_info()]
            return stream in names

        await eventually(is_made, "the stream to be made")
        assert await service.stop() == 0
        await client.jetstream().delete_stream(stream)
    assert " warning " not in service.log.read_text()


@pytest.mark.promise("never-lost", "one-timer-per-key")
async def test_creates_from_a_stream_while_nodes_are_killed(url: str, tmp_path: Path):
    """Every create that the stream has acknowledged becomes one timer, though nodes are killed."""
    prefix, stream = own_name(), own_name()
    service = ServiceProcess(
        tmp_path,
        NATS_URL=url,
        NATS_PREFIX=prefix,
        NATS_COMMANDS="keys",
        COMMANDS_STREAM=stream,
        CLAIM_TTL="1s",
    )
    names = {f"n{number}" for number in range(600)}
    async with caller(url) as client:
        jetstream = client.jetstream()

        async def put(name: str) -> None:
            await jetstream.publish(
                f"{prefix}.default.queue.create", body(name=name), timeout=PATIENCE, headers=KEY
            )

        async def made() -> set[str]:
            return {each["name"] for each in await all_timers(service)}

        async def is_taken() -> bool:
            info = await jetstream.consumer_info(stream, "duetime")
            return info.delivered.consumer_seq > taken

        async def are_there() -> bool:
            return await made() == names

        await service.start()
        try:
            await eventually(lambda: exists(jetstream, stream), "the stream")
            load = sorted(names)
            for part in range(3):
                info = await jetstream.consumer_info(stream, "duetime")
                taken = info.delivered.consumer_seq
                await asyncio.gather(*map(put, load[part * 200 : part * 200 + 200]))
                await eventually(is_taken, "some to be taken", every=0.001)
                await service.kill()
                config = info.config
                config.ack_wait = 1.0  # what was taken and not acknowledged comes again sooner
                await jetstream.add_consumer(stream, config)
                await service.start()
            await eventually(are_there, "every create")
            assert len(await all_timers(service)) == len(names)
            assert await service.stop() == 0
        finally:
            await service.end_if_running()
            await jetstream.delete_stream(stream)


async def exists(jetstream: Any, stream: str) -> bool:
    try:
        await jetstream.consumer_info(stream, "duetime")
    except nats.js.errors.NotFoundError:
        return False
    return True


async def all_timers(service: ServiceProcess) -> list[dict[str, Any]]:
    timers: list[dict[str, Any]] = []
    cursor = ""
    while True:
        data = (await service.call("GET", f"/timers?limit=100{cursor}")).data
        timers += data["timers"]
        if not data.get("next_cursor"):
            return timers
        cursor = f"&cursor={data['next_cursor']}"
