"""docs/nats.md, held against a node: its programs are run as they stand there.

They know NATS and what the page says, and nothing of Duetime's: its package cannot be imported.
"""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import indent

import nats
import pytest

from duetime.delivery.headers import of_message
from duetime.events.types import TYPES
from duetime.nats import headers
from duetime.timer import NatsCallback
from tests.factories import NOW, make_spec, make_timer
from tests.servers.fixtures import OwnServer
from tests.servers.nats import NatsServer
from tests.system.service import API_KEY, ServiceProcess, running_service
from tests.waiting import PATIENCE

PAGE = (Path(__file__).parents[2] / "docs" / "nats.md").read_text("utf-8")
SECRET, OTHER = "whsec_" + "A" * 32, "whsec_" + "B" * 32
STRANGER = "import sys; sys.modules['duetime'] = None\n"  # whoever imports it fails


def program(with_what: str) -> str:
    """The one program of the page that has this in it."""
    [code] = [
        each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if with_what in each
    ]
    return code


class Running:
    """A program of the page, and what it prints."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> str:
        """The next line; nothing if it has ended."""
        assert self._process.stdout is not None
        return (await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)).decode().strip()


@asynccontextmanager
async def running(code: str, server: NatsServer, **environment: str) -> AsyncIterator[Running]:
    assert "nats://127.0.0.1:4222" in code
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        STRANGER + code.replace("nats://127.0.0.1:4222", server.url()),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
def server(own_server: OwnServer) -> NatsServer:
    return own_server("nats")


@pytest.fixture
async def service(server: NatsServer, tmp_path: Path) -> AsyncIterator[ServiceProcess]:
    settings = {
        "NATS_URL": server.url(),
        "SIGNING_SECRETS": f"{SECRET},{OTHER}",
        "OUTBOX": "on",
        "NATS_COMMANDS": "keys",
        "COMMANDS_STREAM": "DUETIME_COMMANDS",
    }
    async with running_service(tmp_path, **settings) as service:
        yield service


@pytest.mark.slow
async def test_its_programs(server: NatsServer, service: ServiceProcess):
    """They create timers, receive what is genuine, once, and hear of all that happened."""
    receiving = program("WEBHOOK_SECRETS")
    queued = program("duetime.default.queue.create")
    creating = program("duetime.default.timers.create")
    creating = creating.replace(
        "    await nc.close()\n", indent(queued, "    ") + "    await nc.close()\n"
    )
    creating = creating.replace("…", API_KEY).replace("15m", "1s").replace("20m", "1s")
    client = await nats.connect(server.url(), allow_reconnect=False)
    async with running(receiving, server, WEBHOOK_SECRETS=OTHER) as receiver:
        await subscribed(client, "orders.expired.4711")
        async with running(creating, server) as creator:
            status, id_ = (await creator.line()).split()
            assert status == "201"
            assert await creator.line() == ""
        for _ in range(2):
            assert await receiver.line() == 'orders.expired.4711 {"order": 4711}'
        timer = (await service.call("GET", f"/timers/{id_}")).data
        assert timer["timer_id"] == "order-4711"
        async with running(program("pull_subscribe"), server) as listener:
            heard = [(await listener.line()).split() for _ in range(8)]
    of_one = [(type_, int(version)) for type_, key, version in heard if key == "order-4711"]
    assert of_one == [("created", 1), ("due", 2), ("attempt_started", 2), ("completed", 3)]
    assert of_one == [(type_, int(version)) for type_, key, version in heard if key == "cart-42"]
    await client.close()


async def subscribed(client: nats.NATS, subject: str) -> None:
    """Wait until somebody listens: what is sent to nobody with a reply is answered so."""
    answer = f"{client.new_inbox()}"
    replies = await client.subscribe(answer)
    for _ in range(1000):
        await client.publish(subject, b"is not genuine", reply=answer)
        try:
            await replies.next_msg(timeout=0.05)
        except nats.errors.TimeoutError:
            return  # nobody said that nobody listens


def test_it_names_the_headers_as_they_are_spelled():
    """To NATS and its clients, names that differ by case are different."""
    timer, secret = make_timer(spec=make_spec(signatures=("webhook", "timer"))), b"s" * 24
    callback = NatsCallback(topic="a", jetstream=True)
    sent, _ = headers.read(of_message(timer, callback, NOW, [secret]))
    [rows] = re.findall(r"^\| header \| \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    told = re.findall(r"`([\w-]+)`", "\n".join(row.split(" | ")[0] for row in rows.splitlines()))
    assert sorted(told) == sorted(sent)


def test_it_tells_of_every_type_of_event():
    """The table of the page has them all, with the same words."""
    told = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert {type_: words for type_, words in told if type_ in TYPES} == dict(TYPES)
