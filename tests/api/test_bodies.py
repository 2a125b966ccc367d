"""The bodies of requests hold so many bytes at once; the rest waits, or is refused unread."""

import asyncio
import json
from typing import Any

import pytest

from duetime.admission import MIB, PATIENCE, Marks
from duetime.api.bodies import LONGEST_READ, SMALL, TINY, Bodies
from duetime.stores.memory import MemoryStore
from duetime.testing import FakeClock
from tests.api.client import KEY, call_app, timer_body
from tests.api.conftest import MakeApi
from tests.api.gated import BODY, GatedStore, assert_refused, seconds, started
from tests.waiting import settle

LARGE = json.dumps(timer_body(metadata="x" * 2 * SMALL)).encode()


@pytest.mark.promise("changes-pass")
async def test_large_bodies_wait_and_small_ones_pass(
    make_api: MakeApi, gated: GatedStore, clock: FakeClock
):
    """Bodies hold so many bytes at once; a large one that finds no room is 503, unread."""
    bodies = Bodies(clock, large=Marks(10, 2 * len(LARGE), 1, 10 * len(LARGE)))
    api = make_api(gated, bodies=bodies)

    def post(body: bytes) -> Any:
        headers = {"Content-Length": str(len(body))}
        return api.call("POST", "/timers", body, headers=headers)

    held = await started(post(LARGE), post(LARGE))
    [waiting] = await started(post(LARGE))
    refused = await post(LARGE)
    assert_refused(refused, "too many large requests")
    assert refused.headers["connection"] == "close"
    small = await started(post(BODY))
    gated.gate.set()
    assert (await small[0]).status == 201
    for task in (*held, waiting):
        assert (await task).status == 201
    assert (bodies._large._count, bodies._large._weight) == (0, 0)
    assert (bodies._small._count, bodies._small._weight) == (0, 0)


@pytest.mark.promise("bounded-memory")
async def test_small_bodies_are_bounded_and_tiny_ones_pass(make_api: MakeApi, clock: FakeClock):
    """Many small bodies are as much as a large one; a tiny one weighs nothing to speak of."""
    gated = GatedStore(MemoryStore(), "insert")
    bodies = Bodies(clock, small=Marks(1, MIB, 1, MIB))
    api = make_api(gated, bodies=bodies)
    small = json.dumps(timer_body(metadata="x" * 2 * TINY)).encode()

    def post(body: bytes) -> Any:
        headers = {"Content-Length": str(len(body))}
        return api.call("POST", "/timers", body, headers=headers)

    held = await started(post(small), post(small), post(BODY))
    assert_refused(await post(small), "too many requests")
    gated.gate.set()
    assert [answer.status for answer in await asyncio.gather(*held)] == [201] * 3
    assert (bodies._small._count, bodies._small._weight) == (0, 0)


async def test_large_bodies_do_not_wait_for_ever(
    make_api: MakeApi, gated: GatedStore, clock: FakeClock
):
    """A large body that finds no room in time is 503."""
    api = make_api(gated, bodies=Bodies(clock, large=Marks(1, MIB, 1, MIB)))
    headers = {"Content-Length": str(len(LARGE))}
    tasks = await started(*(api.call("POST", "/timers", LARGE, headers=headers) for _ in range(2)))
    clock.advance(seconds(PATIENCE))
    assert_refused(await tasks[1], "too many large requests")
    gated.gate.set()
    assert (await tasks[0]).status == 201


async def test_a_body_in_chunks_keeps_the_room_that_it_needs(make_api: MakeApi, clock: FakeClock):
    """A body of unknown length takes room for the largest until it is read."""
    bodies = Bodies(clock)
    gated = GatedStore(MemoryStore(), "insert")
    api = make_api(gated, bodies=bodies)
    headers = [(b"x-api-key", KEY.encode()), (b"transfer-encoding", b"chunked")]
    chunks = (BODY[:5], BODY[5:])
    [task] = await started(call_app(api.app, "POST", "/timers", headers=headers, chunks=chunks))
    assert (bodies._large._count, bodies._large._weight) == (1, len(BODY))
    gated.gate.set()
    assert (await task).status == 201
    assert (bodies._large._count, bodies._large._weight) == (0, 0)


@pytest.mark.parametrize("size", [1, TINY, SMALL, 2 * SMALL])
async def test_a_body_that_stalls(make_api: MakeApi, clock: FakeClock, size: int):
    """Whoever announces a body and does not send it loses the room again, and the connection."""
    bodies = Bodies(clock)
    api = make_api(MemoryStore(), bodies=bodies)
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"x-api-key", KEY.encode()), (b"content-length", b"%d" % size)]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/timers",
        "raw_path": b"/timers",
        "root_path": "",
        "query_string": b"",
        "headers": headers,
    }
    [task] = await started(api.app(scope, receive, send))
    held = [bodies._small._count, bodies._large._count]
    assert held == [int(TINY < size <= SMALL), int(size > SMALL)]
    clock.advance(seconds(LONGEST_READ))
    await settle()
    assert task.done()
    assert sent[0]["status"] == 400
    assert (b"connection", b"close") in sent[0]["headers"]
    assert b"body: did not arrive within 60 s" in sent[1]["body"]
    assert [bodies._small._count, bodies._large._count] == [0, 0]
