"""The service that NATS's tools see: found, described, counted, and shared by its nodes."""

import asyncio
import json
import socket
from urllib.parse import urlsplit

import pytest
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from duetime import __version__
from duetime.stores.memory import MemoryStore
from tests.api.client import KEY, timer_body
from tests.api.gated import GatedStore
from tests.commands.callers import WITHIN, Served, content
from tests.commands.conftest import Serve
from tests.waiting import settle, until

VERBS = {"create", "get", "update", "cancel"}


async def told(served: Served, verb: str, whom: str = "") -> dict:
    message = await served.client.request(f"$SRV.{verb}.{served.prefix}{whom}", timeout=WITHIN)
    return json.loads(message.data)


async def test_it_is_found(served: Served):
    """A ping finds it among all services, by its name, and by its id."""
    inbox, found = served.client.new_inbox(), []

    async def hear(message) -> None:
        found.append(json.loads(message.data))

    await served.client.subscribe(inbox, cb=hear)
    await served.client.publish("$SRV.PING", reply=inbox)
    await until(lambda: any(each["name"] == served.prefix for each in found), "its pong")
    [pong] = [each for each in found if each["name"] == served.prefix]
    assert pong["type"] == "io.nats.micro.v1.ping_response"
    assert pong["version"] == __version__
    assert await told(served, "PING") == await told(served, "PING", f".{pong['id']}") == pong


async def test_it_tells_what_it_offers(served: Served):
    """Its info names each endpoint with its subject and queue group."""
    info = await told(served, "INFO")
    assert info["type"] == "io.nats.micro.v1.info_response"
    assert {each["name"] for each in info["endpoints"]} == VERBS
    assert {each["subject"] for each in info["endpoints"]} == {
        f"{served.prefix}.*.timers.{verb}" for verb in VERBS
    }
    assert {each["queue_group"] for each in info["endpoints"]} == {"q"}


async def test_it_tells_whose_subjects_are_whose(serve: Serve):
    """With subjects for tenants, each has its endpoints, under names of their own."""
    served = await serve(tenants=(("a.b", "acme"), ("c", "globex")))
    endpoints = (await told(served, "INFO"))["endpoints"]
    assert len({each["name"] for each in endpoints}) == 2 * len(VERBS)
    owners = {each["subject"]: each["metadata"]["tenant"] for each in endpoints}
    assert owners["a.b.timers.create"] == "acme"
    assert owners["c.timers.get"] == "globex"


async def test_it_counts(served: Served):
    """Its stats count requests and failures, with the last failure and the time they took.

    Of that, whoever may ask for stats sees no more than the status: it is some tenant's.
    """
    await served.ask("create", timer_body())
    await served.ask("create", timer_body())
    await served.ask("create", {"delay": "1h"})
    stats = await told(served, "STATS")
    assert stats["type"] == "io.nats.micro.v1.stats_response"
    assert stats["started"].endswith("Z")
    [create] = [each for each in stats["endpoints"] if each["name"] == "create"]
    assert (create["num_requests"], create["num_errors"]) == (3, 1)
    assert create["last_error"] == "400 Bad Request"
    assert create["average_processing_time"] == create["processing_time"] // 3 > 0
    [get] = [each for each in stats["endpoints"] if each["name"] == "get"]
    assert (get["num_requests"], get["average_processing_time"]) == (0, 0)


async def test_nodes_share_requests(serve: Serve):
    """Of two nodes, one answers each request, and both get some."""
    first = await serve()
    second = await serve(api=first.api, prefix=first.prefix)
    answers = await asyncio.gather(*(first.ask("create", timer_body()) for _ in range(100)))
    assert [answer.status for answer in answers] == [201] * 100
    counts = []
    for served in (first, second):
        [create] = [e for e in served.answering._service._endpoints if e.name == "create"]
        counts.append(create.stats()["num_requests"])
    assert sum(counts) == 100
    assert min(counts) > 0


@pytest.mark.promise("clean-stop")
async def test_a_node_that_stops_answers_what_it_was_asked(serve: Serve):
    """Whoever asked before a node stopped has their answer, and whoever asks then is not heard."""
    store = GatedStore(MemoryStore(), "insert")
    served = await serve(store)
    asked = [asyncio.create_task(served.ask("create", timer_body())) for _ in range(200)]
    await until(lambda: len(served.answering._tasks) == 200, "all to be asked", every=0.005)
    stopping = asyncio.create_task(served.answering.stop(WITHIN))
    await settle()
    store.gate.set()
    await stopping
    assert [answer.status for answer in await asyncio.gather(*asked)] == [201] * 200
    with pytest.raises(NoRespondersError):
        await served.ask("create", timer_body())
    with pytest.raises(NoRespondersError):
        await told(served, "PING")


def publish_meanwhile(url: str, subject: str, reply: str, contents: list[bytes]) -> None:
    """Publish so that the server has all of it, while nothing else in this process moves."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), WITHIN) as server:
        lines = [b'CONNECT {"verbose": false, "headers": true}\r\n']
        block = f"NATS/1.0\r\nX-API-Key: {KEY}\r\n\r\n".encode()
        for each in contents:
            sizes = f"{len(block)} {len(block) + len(each)}"
            lines.append(f"HPUB {subject} {reply} {sizes}\r\n".encode() + block + each + b"\r\n")
        server.sendall(b"".join(lines) + b"PING\r\n")
        while b"PONG" not in server.recv(65_536):
            pass


@pytest.mark.promise("clean-stop")
async def test_a_node_that_stops_hears_what_is_on_its_way(served: Served, url: str):
    """What the server has sent to a node before it knew that it stops is answered too."""
    inbox, answers = served.client.new_inbox(), []

    async def hear(message: Msg) -> None:
        answers.append(message.headers["Duetime-Status"])

    await served.client.subscribe(inbox, cb=hear)
    await served.client.flush()
    bodies = [content(timer_body()) for _ in range(20)]
    publish_meanwhile(url, f"{served.prefix}.default.timers.create", inbox, bodies)
    await served.answering.stop(WITHIN)
    await until(lambda: len(answers) == 20, "an answer to each", every=0.005)
    assert set(answers) == {"201"}
