"""What is under way over NATS is bounded: beyond it, requests are refused at once."""

import asyncio

import pytest

from duetime.admission import Marks
from duetime.api.envelope import Reply
from duetime.commands.desk import Answer
from duetime.commands.prefixes import prefixes
from duetime.nats import Message
from duetime.nats.service import Endpoint
from duetime.stores.memory import MemoryStore
from duetime.testing import FakeClock
from tests.api.client import timer_body
from tests.api.gated import GatedStore
from tests.commands.callers import WITHIN, Served
from tests.commands.conftest import Serve
from tests.waiting import until

BUSY = (503, 9, "too many requests are under way; nothing was written, try again")


@pytest.mark.promise("bounded-memory")
async def test_too_many_at_once(serve: Serve):
    """Beyond so many requests, each further one is refused at once, and changes nothing."""
    store = GatedStore(MemoryStore(), "insert")
    served = await serve(store, marks=Marks(3, 1 << 20, 0, 0))
    asked = [asyncio.create_task(served.ask("create", timer_body())) for _ in range(3)]
    await until(lambda: len(served.answering._tasks) == 3, "them to be under way", every=0.005)
    refused = await served.ask("create", timer_body())
    assert refused.summary == BUSY
    assert refused.headers["Retry-After"] == "1"
    store.gate.set()
    assert [answer.status for answer in await asyncio.gather(*asked)] == [201] * 3
    assert (await served.ask("create", timer_body())).status == 201


@pytest.mark.promise("bounded-memory")
async def test_too_many_bytes_at_once(serve: Serve):
    """Large bodies are bounded by what they weigh together."""
    store = GatedStore(MemoryStore(), "insert")
    served = await serve(store, marks=Marks(100, 10_000, 0, 0))
    body = timer_body(metadata="x" * 6_000)
    first = asyncio.create_task(served.ask("create", body))
    await until(lambda: len(served.answering._tasks) == 1, "it to be under way", every=0.005)
    assert (await served.ask("create", body)).summary == BUSY
    store.gate.set()
    assert (await first).status == 201


async def test_what_takes_too_long_does_not_hold_up_a_stop(serve: Serve):
    """A node that stops waits for what is under way only as long as it was told to."""
    served = await serve(GatedStore(MemoryStore(), "insert"))
    asked = asyncio.create_task(served.ask("create", timer_body()))
    await until(lambda: len(served.answering._tasks) == 1, "it to be under way", every=0.005)
    async with asyncio.timeout(WITHIN):
        await served.answering.stop(0.05)
    assert not served.answering._tasks
    asked.cancel()


@pytest.mark.promise("tenants-apart")
async def test_whoever_asks_far_too_often_waits_alone(serve: Serve, clock: FakeClock):
    """Answers to those who ask far too often are kept back, and take no room from others."""
    served = await serve(marks=Marks(1, 1 << 20, 0, 0))
    assert (await served.api.put("/groups/g", {"quotas": {"creates_per_second": 1}})).status < 300
    statuses = []
    while served.answering._held == 0:
        asked = asyncio.create_task(served.ask("create", timer_body(group="g")))
        await until(lambda asked=asked: asked.done() or served.answering._held, every=0.001)
        statuses.append(asked.done() and asked.result().status)
    assert 429 in statuses
    assert (await served.ask("create", timer_body())).status == 201
    assert (await asked).status == 429


@pytest.mark.promise("bounded-memory")
async def test_an_answer_that_is_kept_back_keeps_nothing_else(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    """What was asked is let go of before: it may be large, and many may wait."""
    freed = []

    class Large(bytes):
        def __del__(self) -> None:
            freed.append(len(self))

    async def slow_down(*_: object) -> Answer:
        return Answer(Reply(429, "too many"), hold_for=3600.0)

    monkeypatch.setattr(served.answering._desk, "answer", slow_down)
    [prefix] = prefixes("a", ())
    endpoint = Endpoint("get", "a.*.timers.get", {})
    message = Message("a.b.timers.get", Large(b"12345"), "there")
    served.answering._hear(prefix, "get", endpoint, message)
    del message
    await until(lambda: served.answering._held == 1, every=0.001)
    assert freed == [5]
