"""Targets that keep failing: their timers wait, and one at a time tries whether all is well."""

import asyncio

import pytest

from duetime.engine import bulletin
from duetime.nodes import NODE_KIND
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.testing import FlakyStore
from duetime.timer import Kind, Outcome, Status
from tests.engine.conftest import Node, create_for, join
from tests.engine.heartbeats import record
from tests.engine.test_target_pauses import resume
from tests.waiting import settle

pytestmark = pytest.mark.promise("waiting-costs-nothing")

NAME = "default a.example:443"
FAILED = Outcome(kind=Kind.HTTP, status_code=500, error="HTTP 500", retryable=True)
OK = Outcome(kind=Kind.OK, status_code=200)
RETRIES = {"max_attempts": 1000, "initial_interval": "100ms", "backoff_multiplier": 1, "jitter": 0}


@pytest.fixture
async def node(store, clock):
    node = Node(store, clock, breaker_failures=3)
    node.engine.gates.breakers._luck = lambda: 0.0
    await node.engine.members.step()
    return node


async def fail(node: Node, *, times: int = 3) -> None:
    """Let so many callbacks fail, one after the other."""
    node.sender.answer = FAILED
    for _ in range(times):
        await node.create()
        await node.turn()
    node.sender.sent.clear()


async def test_after_so_many_failures_nothing_is_sent(node, clock):
    """The timers wait as they are: no attempt is used, and nothing is written."""
    await fail(node)
    waiting = [await node.create() for _ in range(5)]
    node.store.calls.clear()
    for _ in range(4):
        await node.turn()
        clock.advance(1_000)
    assert node.sent == []
    assert "apply" not in node.store.calls
    assert [await node.get(timer) for timer in waiting] == waiting


async def test_others_are_not_delayed(node):
    """Nor is the same receiver on another port."""
    await fail(node)
    node.sender.answer = OK
    other = await node.create(callback={"type": "http", "url": "https://a.example:8443/"})
    await node.turn()
    assert node.sent == [(other.id, 1)]


async def test_one_is_tried_and_then_all_go_on(node, clock):
    """The probe is one of those that wait, and its attempt counts."""
    await fail(node)
    for _ in range(20):
        await node.create(retry_policy=RETRIES)
    await node.turn()
    clock.advance(4_999)
    await node.turn()
    assert node.sent == []
    clock.advance(1)
    node.sender.hold = asyncio.Event()
    for _ in range(3):
        await node.turn()
    [(probe, attempt)] = node.sent
    assert attempt == 1
    node.sender.hold.set()
    await settle()
    await node.commit()
    assert (await node.service.get(OPERATOR, probe)).progress.failures == 1
    clock.advance(9_000)
    await node.engine.members.step()
    await node.turn()
    assert len(node.sent) == 1
    clock.advance(1_000)
    node.sender.answer = OK
    for _ in range(20):
        await node.turn()
    assert len({id_ for id_, _ in node.sent}) == 20
    assert [attempt for id_, attempt in node.sent if id_ != probe] == [1] * 19


async def test_the_dispatcher_wakes_for_the_probe(node, clock):
    """It does not wait for something else to happen."""
    await fail(node)
    timer = await node.create()
    await node.turn()
    clock.advance(4_900)
    assert await node.engine.dispatcher.step() == pytest.approx(0.1, abs=1e-5)
    clock.advance(100)
    await node.dispatch()
    assert node.sent == [(timer.id, 1)]


@pytest.mark.parametrize("end", ["canceled", "too late"])
async def test_those_that_ended_as_they_waited_do_not_delay_the_probe(node, clock, end):
    """They are not tried one by one, each with a write that is lost."""
    await fail(node)
    gone = [await node.create(deadline="2s") for _ in range(50)]
    await node.turn()
    for timer in gone if end == "canceled" else ():
        await node.service.cancel(OPERATOR, timer.id)
    clock.advance(2_500)
    for _ in range(2):
        await node.turn()
    ended = Status.CANCELED if end == "canceled" else Status.FAILED
    assert {(await node.get(timer)).status for timer in gone} == {ended}
    timer = await node.create()
    await node.turn()
    clock.advance(2_500)
    node.store.calls.clear()
    await node.dispatch()
    assert node.sent == [(timer.id, 1)]
    assert node.store.calls.count("apply") == 1


async def test_a_node_is_not_behind_with_what_waits_for_a_probe(node, clock):
    """Neither before the probe is sent, nor as long as nobody knows what comes of it."""
    await fail(node)
    for _ in range(5):
        await node.create()
    await node.turn()
    clock.advance(5_000)
    assert node.engine.status().behind_ms == 0
    node.sender.hold = asyncio.Event()
    await node.turn()
    assert len(node.sent) == 1
    assert node.engine.status().behind_ms == 0
    node.sender.hold.set()
    await settle()


async def test_those_that_hang_do_not_keep_the_probe_from_starting(node, clock):
    """They were under way when it was shut, and may be so for minutes."""
    hanging: list[asyncio.Event] = []

    async def send(timer, is_mine):
        assert is_mine()
        node.sender.sent.append(timer)
        hanging.append(asyncio.Event())
        await hanging[-1].wait()
        return node.sender.answer

    node.sender.send = send
    for _ in range(12):
        await node.create()
    await node.turn()
    assert len(hanging) == 8  # as many as a new receiver has places
    node.sender.answer = FAILED
    for gate in hanging[:3]:
        gate.set()
    for _ in range(3):
        await node.turn()
    assert len(hanging) == 8
    clock.advance(5_000)
    for _ in range(3):
        await node.turn()
    assert len(hanging) == 9
    hanging[3].set()  # its failure is not that of the probe
    for _ in range(3):
        await node.turn()
    assert len(hanging) == 9
    node.sender.answer = OK
    hanging[8].set()
    for _ in range(3):
        await node.turn()
    assert len(hanging) == 12


async def test_retry_after_holds_all_of_them(node, clock):
    """A receiver that is too busy for one is too busy for all."""
    node.sender.answer = Outcome(
        kind=Kind.HTTP, status_code=429, retryable=True, retry_at=clock.now() + 60_000
    )
    first = await node.create(retry_policy=RETRIES)
    await node.turn()
    second = await node.create()
    node.sender.answer = OK
    for _ in range(59):
        clock.advance(1_000)
        await node.engine.members.step()
        await node.turn()
    assert node.sent == [(first.id, 1)]
    clock.advance(1_000)
    for _ in range(3):
        await node.turn()
    assert sorted(node.sent[1:]) == sorted([(first.id, 2), (second.id, 1)])


async def test_a_deadline_passes_also_at_a_failing_target(node, clock):
    """It is not waited for until the receiver is well."""
    await fail(node)
    timer = await node.create(deadline="2s")
    await node.turn()
    clock.advance(2_001)
    await node.dispatch()
    await node.turn()
    assert (await node.get(timer)).status is Status.FAILED
    assert node.sent == []


async def test_it_is_told_with_the_heartbeat(node, store, clock):
    """Since when, for how long, why, and how many wait."""
    await fail(node)
    for _ in range(4):
        await node.create()
    await node.turn()
    clock.advance(1_000)
    await node.engine.members.step()
    [stored] = await store.records(NODE_KIND)
    report = record(stored).targets[NAME]
    assert (report.failures, report.error) == (3, "HTTP 500")
    assert (report.failing_for, report.probe_in) == (1_000, 4_000)
    assert (report.waiting, report.under_way) == (4, 0)
    [status] = await node.service.targets.list(OPERATOR)
    assert (status.name, status.state, status.waiting) == ("a.example:443", "failing", 4)
    assert status.until == clock.now() + 4_000
    assert status.since == clock.now() - 1_000
    timer = await node.create()
    assert "keeps failing (HTTP 500)" in node.service.waiting_for(timer)
    clock.advance(4_000)
    [status] = await node.service.targets.list(OPERATOR)
    assert status.state == "probing"
    assert "one callback is tried first" in node.service.waiting_for(timer)


async def test_what_is_told_is_bounded(node, store, monkeypatch):
    """However many receivers fail: those that most wait for."""
    monkeypatch.setattr(bulletin, "MOST_SHUT", 3)
    monkeypatch.setattr(bulletin, "BUSIEST", 2)
    node.sender.answer = FAILED
    for number in range(6):
        callback = {"type": "http", "url": f"https://{number}.example/"}
        for _ in range(3):
            await node.create(callback=callback)
            await node.turn()
        for _ in range(number):
            await node.create(callback=callback)
        await node.turn()
    node.sender.hold = asyncio.Event()
    for number in range(6):
        await node.create(callback={"type": "http", "url": f"https://well-{number}.example/"})
    await node.turn()
    await node.engine.members.step()
    [stored] = await store.records(NODE_KIND)
    names = [name.removeprefix("default ") for name in record(stored).targets]
    assert names[:3] == ["5.example:443", "4.example:443", "3.example:443"]
    assert len(names) == 5
    assert all(name.startswith("well-") for name in names[3:])


async def test_it_can_be_switched_off(store, clock):
    """Then it is called as often as timers say."""
    node = Node(store, clock, breaker_failures=0)
    await fail(node, times=30)
    timer = await node.create()
    await node.turn()
    assert node.sent == [(timer.id, 1)]


@pytest.fixture
async def pair(clock):
    memory = MemoryStore()
    a, b = (Node(FlakyStore(memory), clock, name, breaker_failures=3) for name in "ab")
    for node in (a, b):
        node.engine.gates.breakers._luck = lambda: 0.0
    await join(clock, a, b)
    return a, b


async def fail_on(node: Node) -> None:
    node.sender.answer = FAILED
    for _ in range(3):
        await create_for(node, node)
        await node.turn()
    node.sender.sent.clear()


async def test_other_nodes_hear_of_it(pair, clock):
    """They send nothing either, until it is tried; each tries by itself."""
    a, b = pair
    await fail_on(a)
    await a.engine.members.step()
    await b.engine.members.step()
    timer = await create_for(b, b)
    await b.turn()
    assert b.sent == []
    clock.advance(5_000)
    await b.turn()
    assert b.sent == [(timer.id, 1)]


async def test_a_recovery_is_heard_of_too(pair, clock):
    """Nobody waits for minutes when the receiver is well again."""
    a, b = pair
    await fail_on(a)
    await fail_on(b)
    timer = await create_for(b, b)
    await b.turn()
    hung = await create_for(a, a)
    clock.advance(1_000)
    a.engine.gates.ended(NAME, [hung], OK)  # one that was under way when it was shut
    for node in (a, b):
        await node.engine.members.step()
    b.sender.answer = OK
    await b.turn()
    assert b.sent == [(timer.id, 1)]


async def test_to_resume_closes_it_on_all_nodes(pair, clock):
    """Whoever knows that the receiver is well need not wait for a probe."""
    a, b = pair
    timers = []
    for node in pair:
        await fail_on(node)
        timers += [await create_for(node, node) for _ in range(3)]
        await node.turn()
    for node in pair:
        await node.engine.members.step()
    assert await resume(a, b)
    for node in pair:
        node.sender.answer = OK
        node.sender.hold = asyncio.Event()
        await node.turn()
    assert len(a.sent) == len(b.sent) == 3
    [status] = await a.service.targets.list(OPERATOR)
    assert status.state == "ok"


async def test_a_restart_forgets_it(node, clock):
    """What was failing is tried anew; only pauses by hand are kept."""
    await fail(node)
    timer = await node.create()
    await node.turn()
    await node.engine.leave_no_trace()
    after = Node(node.store, clock, "node-2")
    await after.engine.join()
    await after.turn()
    assert after.sent == [(timer.id, 1)]


async def test_tenants_do_not_shut_each_others_targets(node):
    """What one does to a receiver says nothing of what it is to others."""
    await fail(node)
    assert node.engine.gates.is_shut(NAME)
    assert not node.engine.gates.is_shut("acme a.example:443")
