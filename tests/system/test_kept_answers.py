"""What becomes of a timer whose group keeps and checks answers, from its row to a real receiver."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from duetime.delivery.egress import Egress
from duetime.delivery.http import HttpSender
from duetime.engine import Engine
from duetime.ids import ALL_SHARDS
from duetime.requests import CreateTimer
from duetime.service import Service
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.tenancy.requests import PutGroup
from duetime.tenancy.rules import Rules
from duetime.tenancy.terms import GroupTerms
from duetime.testing import FakeClock
from duetime.timer import Attempt, Kind, Status, Timer
from duetime.vault import Vault
from tests.delivery.receiver import Receiver
from tests.waiting import eventually

GROUP = {
    "retry_policy": {"max_attempts": 3, "initial_interval": "10s", "jitter": 0},
    "response_bytes": 100,
    "response_headers": ["X-Request-Id"],
    "response_schema": {"required": ["ok"], "type": "object"},
}
ANSWER = b"HTTP/1.1 200 OK\r\nX-Request-Id: r-1\r\nContent-Length: 15\r\n\r\n"
WRONG, RIGHT = ANSWER + b'{"order": 4711}', ANSWER + b'{"ok":   true }'


class Node:
    """A node on a clock that stands still, with a sender on real sockets."""

    def __init__(self) -> None:
        self.clock, self.store = FakeClock(), MemoryStore()
        rules = Rules(self.store, self.clock)
        terms = GroupTerms(rules, Vault(), self.clock)
        self.sender = HttpSender(self.clock, Egress.parse("", loopback=True), terms=terms)
        self.engine = Engine("node-1", self.store, self.sender, self.clock, rules=rules)
        self.engine.members.shards = ALL_SHARDS
        self.service = Service(self.store, self.sender, self.clock, engine=self.engine, rules=rules)

    async def set(self, **fields: object) -> None:
        body = msgspec.json.decode(msgspec.json.encode(fields), type=PutGroup)
        await self.service.groups.put(OPERATOR, "g", body)

    async def create(self, url: str) -> Timer:
        body = {"delay": "0s", "group": "g", "callback": {"type": "http", "url": url}}
        timer, _ = await self.service.create(OPERATOR, msgspec.convert(body, CreateTimer))
        return timer

    async def tried(self, timer: Timer) -> Timer:
        """The timer after its next attempt."""
        await self.engine.reader.step()
        await self.engine.dispatcher.step()

        async def ended() -> Timer | None:
            await self.engine.committer.step()
            now = await self.service.get(OPERATOR, timer.id)
            return None if now.status is Status.EXECUTING else now

        return await eventually(ended, "the attempt to end", every=0.01)

    async def attempts(self, timer: Timer) -> list[Attempt]:
        return await self.store.attempts(timer.id, None, 10)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    node = Node()
    yield node
    await node.service.close()
    await node.sender.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


async def test_an_answer_that_does_not_match_is_tried_again(node: Node, receiver: Receiver):
    """By the policy, with a line for each attempt, until one does."""
    await node.set(**GROUP)
    receiver.prepared = WRONG
    timer = await node.create(receiver.url("/prepared?by=9999"))
    waiting = await node.tried(timer)
    due_at = node.clock.now() + 10_000
    assert (waiting.status, waiting.wake_at, waiting.progress.attempt) == (
        Status.PENDING,
        due_at,
        1,
    )
    receiver.prepared = RIGHT
    node.clock.advance(10_000)
    done = await node.tried(timer)
    assert (done.status, done.progress.last_error) == (Status.COMPLETED, None)
    first, second = await node.attempts(timer)
    assert (first.attempt, first.node, first.occurrence, first.next_at) == (1, "node-1", 1, due_at)
    assert (first.outcome.kind, first.outcome.status_code) == (Kind.RESPONSE, 200)
    assert first.outcome.error == (
        "the answer does not match response_schema: required 'ok' fails at its root"
    )
    assert (second.outcome.kind, second.next_at) == (Kind.OK, None)
    for each, body in ((first, '{"order": 4711}'), (second, '{"ok":   true }')):
        assert each.outcome.response == body
        assert each.outcome.response_headers == {"x-request-id": "r-1"}
        assert each.outcome.latency_ms is not None


async def test_a_schema_that_is_taken_away(node: Node, receiver: Receiver):
    """Counts for the next attempt already, of a timer that was made under it."""
    await node.set(**GROUP)
    receiver.prepared = WRONG
    timer = await node.create(receiver.url("/prepared?by=9999"))
    assert (await node.tried(timer)).status is Status.PENDING
    await node.set(response_schema=None, response_bytes=0, response_headers=[])
    node.clock.advance(10_000)
    done = await node.tried(timer)
    assert done.status is Status.COMPLETED
    assert done.progress.outcome is not None
    # What is kept was given to the timer when it was made.
    assert done.progress.outcome.response == '{"order": 4711}'


async def test_a_timer_that_never_matches(node: Node, receiver: Receiver):
    """Has failed when its attempts are used up, and says why."""
    await node.set(**GROUP)
    receiver.prepared = WRONG
    timer = await node.create(receiver.url("/prepared?by=9999"))
    for _ in range(2):
        assert (await node.tried(timer)).status is Status.PENDING
        node.clock.advance(60_000)
    failed = await node.tried(timer)
    assert (failed.status, failed.progress.failures) == (Status.FAILED, 3)
    assert "does not match response_schema" in (failed.progress.last_error or "")
