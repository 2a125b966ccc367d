"""A node with NATS: callbacks over a real server, which goes away and comes back."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats
import pytest

from duetime import webhooks
from tests.nats.conftest import Heard, listening
from tests.ports import free_port
from tests.servers.fixtures import OwnServer
from tests.servers.nats import NatsServer
from tests.servers.processes import descendants
from tests.system.service import COMMAND, ServiceProcess, running_service
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.slow

SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


@pytest.fixture
def server(own_server: OwnServer) -> NatsServer:
    return own_server("nats", user=("duetime", "marked-password"))


@pytest.fixture
async def service(server: NatsServer, tmp_path: Path) -> AsyncIterator[ServiceProcess]:
    """A node that is given NATS's host, port, user and password, each by itself."""
    settings = {
        "NATS_HOST": "127.0.0.1",
        "NATS_PORT": str(server.port),
        "NATS_USER": "duetime",
        "NATS_PASSWORD": "marked-password",
        "SIGNING_SECRETS": SECRET,
    }
    async with running_service(tmp_path, **settings) as service:
        yield service
    assert "marked-password" not in service.log.read_text()


async def heard_by(server: NatsServer, subject: str) -> tuple[Any, Heard]:
    client = await nats.connect(server.url(), allow_reconnect=False)
    return client, await listening(client, subject)


def timer(topic: str, **more: Any) -> dict[str, Any]:
    fields = {name: more.pop(name) for name in ("retry_policy", "on_failure") if name in more}
    return {"delay": "0s", "callback": {"type": "nats", "topic": topic, **more}, **fields}


async def is_now(service: ServiceProcess, id_: str, status: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        data = (await service.call("GET", f"/timers/{id_}")).data
        return data if data["status"] == status else None

    return await eventually(look, f"{id_} to be {status}")


async def nats_is(service: ServiceProcess, how: str) -> None:
    async def look() -> bool:
        answer = await service.call("GET", "/healthz")
        assert answer.status == 200
        return answer.data["nats"] == how

    await eventually(look, f"NATS to be {how}")


async def test_a_callback_arrives_and_is_verified(server: NatsServer, service: ServiceProcess):
    """By a subscriber that knows only NATS and the secret; over HTTP it is seen to have."""
    await nats_is(service, "connected")
    client, heard = await heard_by(server, "orders.>")
    made = await service.call(
        "POST", "/timers", timer("orders.due", key="7", payload={"n": 1}, headers={"X-Own": "1"})
    )
    assert (made.status, made.data["callback_type"]) == (201, "nats")
    [message] = await heard.are(1)
    assert (message.subject, json.loads(message.data)) == ("orders.due.7", {"n": 1})
    assert message.headers["X-Own"] == "1"
    assert webhooks.verify(message.data, message.headers, SECRET).id == f"{made.data['id']}-1"
    done = await is_now(service, made.data["id"], "completed")
    assert done["outcome"]["kind"] == "ok"
    await client.close()


async def test_from_http_to_nats(server: NatsServer, service: ServiceProcess):
    """A timer's callback may become one of the other kind, and so may its on_failure."""
    client, heard = await heard_by(server, ">")
    body = {"delay": "1h", "callback": {"type": "http", "url": "http://127.0.0.1:1/"}}
    id_ = (await service.call("POST", "/timers", body)).data["id"]
    change = {"callback": {"type": "nats", "topic": "changed"}}
    assert (await service.call("PUT", f"/timers/{id_}", change)).status == 200
    assert (await service.call("POST", f"/timers/{id_}/fire")).status == 200
    await is_now(service, id_, "completed")
    told = {"callback": {"type": "nats", "topic": "told"}}
    body = {"delay": "0s", "callback": body["callback"], "on_failure": told}
    failed = (await service.call("POST", "/timers", body)).data["id"]
    await heard.are(2)
    by_subject = {message.subject: message for message in heard}
    assert by_subject.keys() == {"changed", "told"}
    assert failed in by_subject["told"].data.decode()
    await client.close()


async def test_a_server_that_is_away_for_a_while(server: NatsServer, service: ServiceProcess):
    """Attempts fail as those of NATS and are tried again; what was canceled meanwhile never
    leaves, and what was not arrives when the server is back.
    """
    await nats_is(service, "connected")
    server.crash()
    await nats_is(service, "disconnected")
    policy = {"max_attempts": 100, "initial_interval": "200ms", "backoff_multiplier": 1}
    kept, canceled = [
        (await service.call("POST", "/timers", timer(topic, retry_policy=policy))).data["id"]
        for topic in ("kept", "canceled")
    ]

    async def has_failed() -> bool:
        data = (await service.call("GET", f"/timers/{canceled}")).data
        return data["failures"] > 0 and data["status"] == "pending"

    await eventually(has_failed, "an attempt to fail")
    assert (await service.call("DELETE", f"/timers/{canceled}")).status == 200
    attempts = (await service.call("GET", f"/timers/{canceled}/attempts")).data["attempts"]
    assert {attempt["kind"] for attempt in attempts} == {"nats"}
    assert {attempt["error"] for attempt in attempts} == {"there is no connection to a NATS server"}
    server.start()
    client, heard = await heard_by(server, ">")
    await nats_is(service, "connected")
    await is_now(service, kept, "completed")
    await client.flush()
    assert {message.subject for message in heard} == {"kept"}
    await client.close()


async def test_a_target_that_keeps_failing_waits(server: NatsServer, service: ServiceProcess):
    """As any other: timers with one attempt outlive a server that is away."""
    server.crash()
    await nats_is(service, "disconnected")
    ids = [
        (await service.call("POST", "/timers", timer("a"))).data["id"]
        for _ in range(14)  # of which ten are needed to know
    ]

    async def are_waiting() -> bool:
        target = (await service.call("GET", "/targets/nats")).data
        return target["state"] == "failing"

    await eventually(are_waiting, "the target to be shut")
    server.start()
    await nats_is(service, "connected")
    for id_ in ids[-3:]:
        await is_now(service, id_, "completed")


async def test_what_nats_cannot_carry_is_refused(service: ServiceProcess):
    """When the timer is made, in words that name the field."""
    for callback, problem in (
        ({"topic": "a b"}, "callback.topic: must not have spaces or control characters"),
        ({"topic": "a", "key": "*"}, "callback.key: must not have the wildcards * and >"),
        ({"topic": "$SYS.x"}, "callback.topic: must not begin with $ or _INBOX"),
        ({"topic": "duetime.default.timers.create"}, "callback.topic: must not begin with duetime"),
        ({"topic": "a", "headers": {"Nats-TTL": "1"}}, "callback.headers: Nats-TTL cannot be set"),
        ({"topic": "a", "credential": "x"}, "callback.credential: unknown field"),
        ({"topic": "a", "follow_response": True}, "callback.follow_response: unknown field"),
    ):
        body = {"delay": "1h", "callback": {"type": "nats", **callback}}
        answer = await service.call("POST", "/timers", body)
        assert answer.status == 400, callback
        assert answer.envelope["message"].startswith(problem)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_without_a_server_it_does_not_start(tmp_path: Path, workers: str):
    """The message names the setting, the server, and why; no password."""
    environment = ServiceProcess(tmp_path)._environment()
    port = free_port()
    environment["WORKERS"] = workers
    environment["NATS_URL"] = f"nats://us:marked-password@127.0.0.1:{port}"
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        "serve",
        cwd=tmp_path,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 2
    expected = f"NATS_URL: no NATS server can be reached (nats://127.0.0.1:{port}: Connection refus"
    assert expected in said.decode()
    assert "see to it that one runs there" in said.decode()
    assert "marked-password" not in said.decode()


async def test_workers_have_connections_of_their_own(server: NatsServer, tmp_path: Path):
    """Each of them sends."""
    settings = {"NATS_URL": server.url(), "WORKERS": "2"}
    client, heard = await heard_by(server, ">")
    async with running_service(tmp_path, **settings) as service:
        for number in range(20):
            body = timer("a", payload=number)
            assert (await service.call("POST", "/timers", body)).status == 201
        await heard.are(20)
    assert sorted(int(message.data) for message in heard) == [*range(20)]
    await client.close()


async def test_a_worker_is_replaced_while_nats_is_away(server: NatsServer, tmp_path: Path):
    """It serves what needs no NATS, and has a connection as soon as there is one."""
    settings = {"NATS_URL": server.url(), "WORKERS": "2"}
    async with running_service(tmp_path, **settings) as service:

        async def have_begun(count: int) -> None:
            async def look() -> bool:
                return service.log.read_text().count("takes requests") == count

            await eventually(look, f"worker number {count}")

        await have_begun(2)
        server.crash()
        first, *_ = descendants(service.pid)
        os.kill(first, signal.SIGKILL)
        await have_begun(3)
        await nats_is(service, "disconnected")
        server.start()
        client, heard = await heard_by(server, ">")
        await nats_is(service, "connected")
        policy = {"max_attempts": 100, "initial_interval": "200ms", "backoff_multiplier": 1}
        for number in range(10):
            body = timer("a", payload=number, retry_policy=policy)
            assert (await service.call("POST", "/timers", body)).status == 201
        await heard.are(10)
        await client.close()


@pytest.mark.promise("never-lost")
async def test_no_callback_is_lost_in_a_storm(server: NatsServer, service: ServiceProcess):
    """With the server killed, started again and paused under load: in the stream is one message of
    each timer, whatever was sent twice.
    """
    client = await nats.connect(server.url(), allow_reconnect=False)
    await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
    await client.close()
    policy = {"max_attempts": 1000, "initial_interval": "100ms", "max_interval": "1s"}
    made: list[str] = []

    async def create(count: int) -> None:
        timers = [
            timer("orders.due", payload=number, jetstream=True, retry_policy=policy)
            for number in range(count)
        ]
        answer = await service.call("POST", "/timers/batch", {"timers": timers})
        assert answer.status in {200, 201}, answer
        made.extend(each["data"]["id"] for each in answer.data["timers"])

    await create(500)
    server.crash()
    await create(500)
    server.start()
    await create(500)
    server.pause()
    await create(500)
    server.resume()

    async def are_done() -> bool:
        return (await service.call("GET", "/timers?status=completed")).data["total"] == len(made)

    await eventually(are_done, f"{len(made)} timers to complete")
    client = await nats.connect(server.url(), allow_reconnect=False)
    reading = await client.jetstream().pull_subscribe("orders.>", stream="ORDERS")
    seen: list[str] = []
    while len(seen) < len(made):
        messages = await reading.fetch(500, timeout=PATIENCE)
        for message in messages:
            await message.ack()
        seen += [message.headers["X-Timer-Id"] for message in messages]
    assert sorted(seen) == sorted(made)
    assert (await client.jetstream().stream_info("ORDERS")).state.messages == len(made)
    await client.close()


async def test_a_server_that_hangs_does_not_hold_up_a_stop(server: NatsServer, tmp_path: Path):
    """A node that is asked to stop does not wait for NATS longer than for its callbacks."""
    settings = {"NATS_URL": server.url(), "OUTBOX": "on", "DRAIN_TIMEOUT": "1s"}
    async with running_service(tmp_path, **settings) as service:
        server.pause()
        # By the time that it is due, its first events are on their way, and go nowhere.
        made = await service.call("POST", "/timers", {**timer("a"), "delay": "1s"})
        await is_now(service, made.data["id"], "executing")
        assert await service.stop() == 0
    server.resume()
    log = service.log.read_text()
    assert "events cannot be published: the connection to the NATS server was lost" in log
    assert "nobody answered" not in log  # whoever waited did not wait to their end
