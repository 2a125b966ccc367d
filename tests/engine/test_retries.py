"""When the attempts of a timer start, to the millisecond, whatever comes between them."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyreqwest.http import Url

from duetime.delivery.answers import Response
from duetime.delivery.capture import Capture
from duetime.delivery.outcomes import LONGEST_WAIT, answered
from duetime.engine import committer
from duetime.errors import StoreUnavailable
from duetime.requests import UpdateTimer
from duetime.stores.memory import MemoryStore
from duetime.stores.sqlite.store import SqliteStore
from duetime.tenancy.caller import OPERATOR
from duetime.testing import FakeClock, FlakyStore
from duetime.timer import Kind, Outcome, Status, Timer
from tests.engine.conftest import CLAIM_FOR, Node

FAILED = Outcome(kind=Kind.HTTP, status_code=503, error="HTTP 503", retryable=True)
STEADY = {"max_attempts": 4, "initial_interval": "10s", "backoff_multiplier": 3, "jitter": 0}


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FlakyStore]:
    store: Any = MemoryStore()
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "duetime.db", synchronous="off")
    await store.migrate()
    yield FlakyStore(store)
    await store.close()


class Trial:
    """A timer whose receiver keeps failing, and when it was tried."""

    def __init__(self, node: Node, timer: Timer) -> None:
        self.node = node
        self.timer = timer
        self.began = node.clock.now()
        self.starts: list[int] = []
        self.sent: list[Timer] = []

    async def go_on(self, node: Node | None = None) -> Timer:
        """Let the next attempt start and end, at its time and not a millisecond before it."""
        self.node = node or self.node
        self.node.sender.sent.clear()
        at = (await self.now()).wake_at
        assert at is not None
        clock = self.node.clock
        if at > clock.now():
            clock.advance(at - clock.now() - 1)
            await self.node.turn()
            assert self.node.sender.sent == [], "it was early"
            clock.advance(1)
        await self.node.turn()
        await self.node.commit()
        [sent] = self.node.sender.sent
        self.sent.append(sent)
        self.starts.append(clock.now() - self.began)
        return await self.now()

    async def to_the_end(self) -> list[int]:
        """Every start that there is, counted from the first."""
        while (await self.go_on()).status is Status.PENDING:
            pass
        return self.starts

    async def now(self) -> Timer:
        return await self.node.get(self.timer)

    @property
    def numbers(self) -> list[int]:
        return [timer.progress.attempt for timer in self.sent]


async def trial(node: Node, policy: dict[str, Any], *outcomes: Outcome) -> Trial:
    node.sender.answer = FAILED
    node.sender.answers.extend(outcomes)
    return Trial(node, await node.create(retry_policy=policy))


async def update(tried: Trial, **fields: Any) -> None:
    request = msgspec.convert(fields, UpdateTimer)
    await tried.node.service.update(OPERATOR, tried.timer.id, request)


@pytest.mark.promise("never-early")
@pytest.mark.parametrize(
    ("policy", "starts"),
    [
        ({}, [0]),
        ({"max_attempts": 1, "initial_interval": "5s"}, [0]),
        ({"max_attempts": 5}, [0, 1000, 3000, 7000, 15_000]),
        (STEADY, [0, 10_000, 40_000, 130_000]),
        ({"max_attempts": 4, "backoff_multiplier": 1}, [0, 1000, 2000, 3000]),
        ({"max_attempts": 4, "initial_interval": "0s"}, [0, 0, 0, 0]),
        (
            {"max_attempts": 4, "initial_interval": "333ms", "backoff_multiplier": 1.5},
            [0, 333, 833, 1582],
        ),
        ({"max_attempts": 5, "max_interval": "3s"}, [0, 1000, 3000, 6000, 9000]),
        ({"max_attempts": 3, "initial_interval": "1h", "max_interval": "5s"}, [0, 5000, 10_000]),
        ({"max_attempts": 9, "max_duration": "7s"}, [0, 1000, 3000, 7000]),
        ({"max_attempts": 9, "max_duration": "6999ms"}, [0, 1000, 3000]),
        ({"max_attempts": 9, "max_duration": "0s"}, [0]),
    ],
)
async def test_exact_sequence(node: Node, policy: dict[str, Any], starts: list[int]):
    """A policy without jitter says when each attempt starts, and which is the last."""
    tried = await trial(node, {"jitter": 0} | policy)
    assert await tried.to_the_end() == starts
    assert tried.numbers == list(range(1, len(starts) + 1))
    stored = await tried.now()
    assert (stored.status, stored.progress.failures) == (Status.FAILED, len(starts))
    assert stored.progress.last_error == "HTTP 503"


POLICIES = st.fixed_dictionaries(
    {
        "max_attempts": st.integers(1, 6),
        "initial_interval": st.integers(0, 5_000_000).map("{}ms".format),
        "backoff_multiplier": st.floats(1, 100),
        "max_interval": st.integers(0, 5_000_000).map("{}ms".format),
        "jitter": st.floats(0, 1),
    }
)


@settings(max_examples=60, deadline=None)
@given(policy=POLICIES, seed=st.integers(0, 2**32))
def test_every_policy_within_its_jitter(policy: dict[str, Any], seed: int):
    """Each pause lies within its share of what the policy says, whatever the dice say."""
    random.seed(seed)
    pauses = _pauses(policy)
    for pause, number in zip(pauses, range(1, len(pauses) + 1), strict=True):
        initial, longest = (int(policy[name][:-2]) for name in ("initial_interval", "max_interval"))
        exact = min(initial * policy["backoff_multiplier"] ** (number - 1), longest)
        spread = exact * policy["jitter"]
        assert exact - spread - 1 <= pause <= exact + spread + 1
    assert len(pauses) == policy["max_attempts"] - 1


def _pauses(policy: dict[str, Any]) -> list[int]:
    async def main() -> list[int]:
        tried = await trial(Node(MemoryStore(), FakeClock()), policy)
        return await tried.to_the_end()

    starts = asyncio.run(main())
    return [after - before for before, after in pairwise(starts)]


@pytest.mark.parametrize(("luck", "starts"), [(0.0, [0, 8000, 32_000]), (1.0, [0, 12_000, 48_000])])
async def test_ends_of_the_jitter(
    node: Node, monkeypatch: pytest.MonkeyPatch, luck: float, starts: list[int]
):
    """The luckiest and the unluckiest are as far apart as the policy says."""
    monkeypatch.setattr(committer.random, "random", lambda: luck)
    tried = await trial(node, STEADY | {"jitter": 0.2, "max_attempts": 3})
    assert await tried.to_the_end() == starts


def answer(clock: FakeClock, status: int, retry_after: str) -> Outcome:
    """What an answer with this header means."""
    response = Response(status, [(b"Retry-After", retry_after.encode())])
    return answered(response, Capture(), Url("https://a.example/"), clock, 1)


@pytest.mark.promise("never-early")
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("asked", "second"),
    [
        (lambda _: "60", 60_000),  # longer than the 10 s of the policy
        (lambda _: "3", 10_000),  # shorter
        (lambda now: formatdate(now / 1000 + 60, usegmt=True), 60_000),
        (lambda now: formatdate(now / 1000 + 3, usegmt=True), 10_000),
        (lambda now: formatdate(now / 1000 - 60, usegmt=True), 10_000),
        (lambda _: str(10**9), LONGEST_WAIT),
        (lambda _: "Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_WAIT),
        (lambda _: "soon", 10_000),
    ],
    ids=["longer", "shorter", "date", "early date", "past", "far", "far date", "nonsense"],
)
async def test_retry_after(
    node: Node, clock: FakeClock, status: int, asked: Callable[[int], str], second: int
):
    """It puts off the next attempt and no other, and never brings one forward."""
    tried = await trial(node, STEADY, answer(clock, status, asked(clock.now())))
    assert await tried.to_the_end() == [0, second, second + 30_000, second + 120_000]


async def test_retry_after_past_max_duration(node: Node, clock: FakeClock):
    """A receiver that asks for more time than there is has been called for the last time."""
    policy = STEADY | {"max_duration": "1m"}
    tried = await trial(node, policy, answer(clock, 503, "61"))
    assert await tried.to_the_end() == [0]
    clock.advance(61_000)  # nothing is sent to its target before
    tried = await trial(node, policy, answer(clock, 503, "60"))
    assert await tried.to_the_end() == [0, 60_000]


@pytest.mark.parametrize("status", [301, 400, 404, 410])
async def test_answer_that_is_final(node: Node, clock: FakeClock, status: int):
    """It ends the timer at once, and no header of it changes that."""
    tried = await trial(node, STEADY, FAILED, answer(clock, status, "5"))
    assert await tried.to_the_end() == [0, 10_000]
    stored = await tried.now()
    assert (stored.status, stored.progress.failures) == (Status.FAILED, 2)
    assert str(status) in str(stored.progress.last_error)


async def test_success_ends_it(node: Node):
    """What got through in the end is tried no more, and has no error."""
    ok = Outcome(kind=Kind.OK, status_code=200)
    tried = await trial(node, STEADY, FAILED, FAILED, ok)
    assert await tried.to_the_end() == [0, 10_000, 40_000]
    stored = await tried.now()
    assert (stored.status, stored.progress.last_error) == (Status.COMPLETED, None)


@pytest.mark.promise("cancel-holds")
async def test_retry_that_is_canceled(node: Node, clock: FakeClock):
    """There is no attempt after that, and what was tried is still told."""
    tried = await trial(node, STEADY)
    await tried.go_on()
    await node.service.cancel(OPERATOR, tried.timer.id)
    clock.advance(LONGEST_WAIT)
    node.sender.sent.clear()
    await node.turn()
    assert node.sender.sent == []
    stored = await tried.now()
    assert (stored.status, stored.progress.failures) == (Status.CANCELED, 1)


async def test_retry_that_is_fired_now(node: Node, clock: FakeClock):
    """It starts now, counts as the attempt that it would have been, and the pauses go on."""
    tried = await trial(node, STEADY)
    await tried.go_on()
    clock.advance(4_000)
    await node.service.fire(OPERATOR, tried.timer.id)
    assert await tried.to_the_end() == [0, 4_000, 34_000, 124_000]
    assert tried.numbers == [1, 2, 3, 4]
    assert len({timer.webhook_id for timer in tried.sent}) == 1


async def test_retry_that_is_paused_and_resumed(node: Node, clock: FakeClock):
    """It is due when it is resumed, and neither its number nor its failures go back."""
    tried = await trial(node, STEADY)
    await tried.go_on()
    await node.service.pause(OPERATOR, tried.timer.id)
    clock.advance(100_000)
    await node.service.resume(OPERATOR, tried.timer.id)
    assert await tried.to_the_end() == [0, 100_000, 130_000, 220_000]
    assert tried.numbers == [1, 2, 3, 4]
    assert len({timer.webhook_id for timer in tried.sent}) == 1


async def test_retry_whose_policy_is_changed(node: Node):
    """The next pause is still the old one; from then on the new policy counts all failures."""
    tried = await trial(node, STEADY)
    await tried.go_on()
    policy = {"max_attempts": 3, "initial_interval": "1s", "backoff_multiplier": 2, "jitter": 0}
    await update(tried, retry_policy=policy)
    assert await tried.to_the_end() == [0, 10_000, 12_000]
    assert tried.numbers == [1, 2, 3]


@pytest.mark.promise("own-number")
async def test_retry_whose_callback_is_changed(node: Node):
    """It is another occurrence, which has its attempts all to itself."""
    tried = await trial(node, STEADY)
    await tried.go_on()
    callback = {"type": "http", "url": "https://b.example/"}
    await update(tried, callback=callback)
    assert await tried.to_the_end() == [0, 0, 10_000, 40_000, 130_000]
    assert tried.numbers == [1, 1, 2, 3, 4]
    occurrences = [timer.webhook_id.rpartition("-")[2] for timer in tried.sent]
    assert occurrences == ["1", "2", "2", "2", "2"]


@pytest.mark.promise("own-number", "never-lost")
async def test_sequence_across_restarts(node: Node, store: FlakyStore, clock: FakeClock):
    """Each attempt on a node of its own: the sequence is that of one node, to the millisecond."""
    tried = await trial(node, STEADY)
    while (await tried.now()).status is Status.PENDING:
        another = Node(store, clock, f"node-{len(tried.sent)}")
        another.sender.answer = FAILED
        await tried.go_on(another)
    assert tried.starts == [0, 10_000, 40_000, 130_000]
    assert tried.numbers == [1, 2, 3, 4]
    assert len({timer.webhook_id for timer in tried.sent}) == 1
    log = await tried.node.service.attempts(OPERATOR, tried.timer.id, None, 50)
    assert [line.attempt for line in log] == [1, 2, 3, 4]
    nexts = [line.next_at and line.next_at - tried.began for line in log]
    assert nexts == [10_000, 40_000, 130_000, None]


@pytest.mark.promise("own-number", "one-node-per-attempt")
@pytest.mark.parametrize("dies_at", [1, 2, 3, 4])
async def test_sequence_across_the_death_of_a_node(
    node: Node, store: FlakyStore, clock: FakeClock, dies_at: int
):
    """What dies with its node has a number and is no failure: the pauses go on as they were."""
    tried = await trial(node, STEADY)
    for _ in range(dies_at - 1):
        await tried.go_on()
    before = await tried.now()
    clock.advance(max((before.wake_at or 0) - clock.now(), 0))
    started = clock.now() - tried.began
    node.sender.hold = asyncio.Event()
    node.sender.sent.clear()
    await node.turn()
    tried.sent += node.sender.sent
    heir = Node(store, clock, "heir")
    heir.sender.answer = FAILED
    after = await tried.go_on(heir)  # when the claim has run out
    assert tried.starts[-1] == started + CLAIM_FOR
    assert after.progress.failures == dies_at
    if after.status is Status.PENDING:
        await tried.to_the_end()
    pauses = [0, 10_000, 30_000, 90_000]
    expected = [sum(pauses[: n + 1]) + CLAIM_FOR * (n + 1 >= dies_at) for n in range(4)]
    assert tried.starts == expected
    assert tried.numbers == [1, 2, 3, 4, 5]
    assert len({timer.webhook_id for timer in tried.sent}) == 1
    stored = await tried.now()
    assert (stored.status, stored.progress.failures) == (Status.FAILED, 4)
    log = await heir.service.attempts(OPERATOR, tried.timer.id, None, 50)
    assert [line.attempt for line in log] == [1, 2, 3, 4, 5]
    assert [line.attempt for line in log if line.outcome.kind is Kind.LOST] == [dies_at]


async def test_max_duration_across_the_death_of_a_node(
    node: Node, store: FlakyStore, clock: FakeClock
):
    """It counts from the first attempt, though nobody knows what became of that."""
    policy = STEADY | {"max_duration": "49s", "max_attempts": 9}
    tried = await trial(node, policy)
    node.sender.hold = asyncio.Event()
    await node.turn()
    heir = Node(store, clock, "heir")
    heir.sender.answer = FAILED
    await tried.go_on(heir)
    assert await tried.to_the_end() == [10_000, 20_000]  # the next would be at 50


@pytest.mark.promise("failing-store", "own-number")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_failure_is_counted_once(node: Node, store: FlakyStore, when: Any):
    """A store that fails as it takes an outcome, written or not: it is one failure in the end."""
    tried = await trial(node, STEADY)
    await node.engine.reader.step()
    await node.dispatch()
    tried.sent += node.sender.sent
    store.failing = when
    with pytest.raises(StoreUnavailable):
        await node.commit()
    store.failing = None
    await node.commit()
    stored = await tried.now()
    assert (stored.status, stored.progress.failures) == (Status.PENDING, 1)
    assert stored.progress.attempt == 1
    await tried.to_the_end()
    assert tried.numbers == [1, 2, 3, 4]
    log = await node.service.attempts(OPERATOR, tried.timer.id, None, 50)
    assert [line.attempt for line in log] == [1, 2, 3, 4]


async def test_attempt_that_was_not_sent_is_none(node: Node, clock: FakeClock):
    """Its number is used again, and it is no failure."""
    unsent = Outcome(kind=Kind.UNSENT)
    tried = await trial(node, STEADY, FAILED, unsent)
    await tried.go_on()
    stored = await tried.go_on()
    assert (stored.status, stored.progress.failures) == (Status.PENDING, 1)
    assert await tried.to_the_end() == [0, 10_000, 10_000, 40_000, 130_000]
    assert tried.numbers == [1, 2, 2, 3, 4]
