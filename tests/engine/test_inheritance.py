"""What a dead node left executing is taken up when it is found dead, and not before."""

import asyncio

import pytest

from duetime.engine import column
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.testing import FlakyStore
from duetime.timer import Kind, Status
from tests.engine.conftest import CLAIM_FOR, Node, create_for, join, watch
from tests.waiting import settle

TTLS = {"a": CLAIM_FOR, "b": CLAIM_FOR, "c": 6 * CLAIM_FOR}


@pytest.fixture
def memory():
    return MemoryStore()


@pytest.fixture
async def pair(memory, clock):
    """Two nodes that share the shards of one store, and have just seen each other."""
    a, b = (Node(FlakyStore(memory), clock, name) for name in "ab")
    await join(clock, a, b)
    await a.engine.members.step()
    return a, b


async def claim_late(a: Node, b: Node, clock, count: int = 5) -> list:
    """Claims that b makes half a ttl after its last heartbeat, while a watches."""
    await watch(clock, a, CLAIM_FOR // 2)
    timers = [await b.create() for _ in range(count)]
    await b.engine.dispatcher.step()
    return timers


async def inherit(a: Node) -> None:
    """Let a node look after the others, and take up what they left."""
    await a.engine.members.step()
    while await a.engine.heir.step() == 0:
        pass
    await a.dispatch()


@pytest.mark.promise("dead-inherited")
async def test_what_a_dead_node_left_executing_is_taken_up_when_it_is_found_dead(pair, clock):
    """A dead node's claims are taken up in the pass that finds it dead, in whatever shard."""
    a, b = pair
    b.sender.hold = asyncio.Event()
    timers = await claim_late(a, b, clock)
    await settle()
    assert len(b.sent) == 5
    await watch(clock, a, CLAIM_FOR // 2 - 1)
    await inherit(a)
    assert a.sent == []
    clock.advance(1)
    await inherit(a)
    assert sorted(a.sent) == sorted((timer.id, 2) for timer in timers)
    await a.commit()
    for timer in timers:
        stored = await a.get(timer)
        assert stored.status is Status.COMPLETED
        log = await a.service.attempts(OPERATOR, timer.id, None, 50)
        assert [(line.attempt, line.outcome.kind) for line in log] == [(1, Kind.LOST), (2, Kind.OK)]
        assert log[0].outcome.error == "its node was gone before the outcome was known"
        assert (log[0].node, log[1].node) == ("b", "a")


@pytest.mark.promise("stalled-sends-nothing")
async def test_a_node_that_was_taken_for_dead_sends_nothing_when_it_goes_on(pair, clock):
    """A node whose lease has ended sends nothing, though its claims hold, whoever moves first."""
    a, b = pair
    timers = await claim_late(a, b, clock)  # claimed, and stopped before anything was sent
    await watch(clock, a, CLAIM_FOR // 2)
    await inherit(a)
    assert len(a.sent) == 5
    await b.engine.members.step()
    await settle()
    for _ in range(3):
        await b.turn()
    assert b.sent == []
    assert b.engine.targets.under_way == 0
    await a.commit()
    assert {(await a.get(timer)).status for timer in timers} == {Status.COMPLETED}


@pytest.mark.promise("dead-inherited")
async def test_a_node_that_came_back_keeps_what_it_claimed_since(pair, clock):
    """A node whose record has moved keeps its claims, for they may be under its new lease."""
    a, b = pair
    await watch(clock, a, CLAIM_FOR)
    assert await a.engine.members.still_dead() == {"b"}
    await b.engine.members.step()
    await b.engine.reader.step()
    timer = await b.create()
    b.sender.hold = asyncio.Event()
    await b.dispatch()
    assert b.sent == [(timer.id, 1)]
    await a.engine.heir.step()
    await a.dispatch()
    assert a.sent == []


@pytest.mark.promise("one-node-per-attempt")
async def test_claims_of_the_living_are_left_alone(memory, clock):
    """A node inherits from the dead only, and leaves the claims of the living alone."""
    a, b, c = (Node(FlakyStore(memory), clock, name) for name in "abc")
    await join(clock, a, b, c)
    for node in (a, c):
        await node.engine.members.step()
    for _ in range(2):
        await watch(clock, a, CLAIM_FOR // 4)
        await c.engine.members.step()
    await a.engine.members.step()
    for node in (b, c):
        node.sender.hold = asyncio.Event()
        for _ in range(4):
            await node.create()
        await node.dispatch()
    await watch(clock, a, CLAIM_FOR // 2)
    await inherit(a)
    assert set(a.sent) <= {(id_, 2) for id_, _ in b.sent}
    await c.engine.members.step()
    await c.engine.heir.step()
    await c.dispatch()
    heirs = [id_ for node in (a, c) for id_, attempt in node.sent if attempt == 2]
    assert sorted(heirs) == sorted(id_ for id_, _ in b.sent)


async def test_nothing_is_taken_from_a_node_that_left(pair, clock):
    """It ends what it has begun, or hands it back itself."""
    a, b = pair
    b.sender.hold = asyncio.Event()
    timers = await claim_late(a, b, clock)
    await settle()
    await b.engine.members.leave()
    await watch(clock, a, CLAIM_FOR // 2)
    await inherit(a)
    assert a.sent == []
    b.sender.hold.set()
    await settle()
    await b.commit()
    assert {(await a.get(timer)).status for timer in timers} == {Status.COMPLETED}


@pytest.mark.promise("dead-inherited")
async def test_a_node_that_is_only_passed_over_is_not_inherited_from(memory, clock):
    """A newcomer takes a slow node's shards early, but its claims only when it is surely dead."""
    slow = Node(FlakyStore(memory), clock, "slow")
    await slow.engine.members.step()
    clock.advance(4_000)
    slow.sender.hold = asyncio.Event()
    await slow.create()
    await slow.dispatch()
    new = Node(FlakyStore(memory), clock, "new")
    await inherit(new)
    clock.advance(3_000)
    await inherit(new)
    assert len(new.engine.members.shards) == 4096
    assert new.sent == []


@pytest.mark.promise("dead-inherited")
async def test_claims_that_were_read_already_are_hastened(pair, clock):
    """The reader has those that run out soon on the agenda, for when they do."""
    a, b = pair
    b.sender.hold = asyncio.Event()
    timers = await claim_late(a, b, clock)
    await settle()
    await watch(clock, a, CLAIM_FOR // 2 - 1)
    await a.engine.reader.step()
    clock.advance(1)
    await a.engine.members.step()
    await a.engine.reader.step()
    assert len(a.engine.agenda) > 0
    await a.engine.heir.step()
    await a.dispatch()
    assert sorted(a.sent) == sorted((timer.id, 2) for timer in timers)
    clock.advance(CLAIM_FOR)
    await a.turn()
    assert len(a.sent) == 5
    assert len(a.engine.agenda) == 0


async def test_more_claims_than_fit_on_a_page(pair, clock):
    """They are looked for page by page, among the timers that only wait."""
    a, b = pair
    a.engine.heir._page = 7
    for number in range(30):
        await b.create(delay=f"{6_000 + 400 * number}ms")
    b.sender.hold = asyncio.Event()
    b.engine.targets._remembered["default a.example:443"] = 128
    await claim_late(a, b, clock, 40)
    await settle()
    assert len(b.sent) == 40
    await watch(clock, a, CLAIM_FOR // 2)
    await inherit(a)
    assert len([each for each in a.sent if each[1] == 2]) == 8
    a.engine.targets._remembered["default a.example:443"] = 128
    while len(a.sent) < 40:
        await a.commit()
        await a.dispatch()
    assert {id_ for id_, attempt in a.sent if attempt == 2} == {id_ for id_, _ in b.sent}


async def test_claims_of_a_node_whose_clock_was_ahead_are_found(pair, clock):
    """They seem to hold for longer than any claim of its node could."""
    a, b = pair
    b.sender.hold = asyncio.Event()
    await watch(clock, a, CLAIM_FOR // 2)
    clock.step_wall_clock(CLAIM_FOR * 3 // 4)
    timer = await create_for(b, b)
    await b.turn()
    clock.step_wall_clock(-CLAIM_FOR * 3 // 4)
    await watch(clock, a, CLAIM_FOR // 2)
    await inherit(a)
    assert a.sent == [(timer.id, 2)]


async def test_claims_are_looked_for_as_far_as_those_of_any_dead_node_hold(memory, clock):
    """Nodes with different settings get along, also when they are dead."""
    a, b, c = (Node(FlakyStore(memory), clock, name, claim_for=ttl) for name, ttl in TTLS.items())
    await join(clock, a, b, c)
    await a.engine.members.step()
    await watch(clock, a, TTLS["c"] // 2)
    c.sender.hold = asyncio.Event()
    timer = await create_for(c, c)
    await c.turn()
    await watch(clock, a, TTLS["c"] // 2)
    await inherit(a)
    assert a.sent == [(timer.id, 2)]


async def test_who_dies_while_others_are_inherited_from_is_not_forgotten(memory, clock):
    """The look for its claims begins anew."""
    a, b, c = (Node(FlakyStore(memory), clock, name) for name in "abc")
    await join(clock, a, b, c)
    await a.engine.members.step()
    await watch(clock, a, CLAIM_FOR // 2)
    await c.engine.members.step()
    await watch(clock, a, CLAIM_FOR // 4)
    for node in (b, c):
        node.sender.hold = asyncio.Event()
        await create_for(node, node)
        await node.turn()
    await watch(clock, a, CLAIM_FOR // 4)
    due = memory.due

    async def look_while_another_dies(*args):
        memory.due = due
        await watch(clock, a, CLAIM_FOR * 3 // 5)
        return await due(*args)

    memory.due = look_while_another_dies
    await inherit(a)
    assert sorted(a.sent) == sorted((id_, 2) for id_, _ in b.sent + c.sent)


async def test_a_dead_node_that_left_nothing_is_done_with_in_one_look(pair, clock):
    """After that the store is not asked any more."""
    a, _ = pair
    await watch(clock, a, CLAIM_FOR)
    a.store.calls.clear()
    assert await a.engine.heir.step() > 0
    assert a.store.calls == ["due"]
    assert await a.engine.heir.step() > 0
    assert a.store.calls == ["due"]


async def test_what_is_inherited_does_not_overfill_the_agenda(pair, clock, monkeypatch):
    """What finds no room stays where it is, and runs out by itself."""
    a, b = pair
    b.sender.hold = asyncio.Event()
    await claim_late(a, b, clock)
    await watch(clock, a, CLAIM_FOR // 2)
    monkeypatch.setattr(column, "CAPACITY", 2)
    await a.engine.heir.step()
    assert len(a.engine.agenda) == 2
    monkeypatch.undo()
    clock.advance(CLAIM_FOR)
    await a.engine.members.step()
    for _ in range(2):
        await a.turn()
    assert len(a.sent) == 5


@pytest.mark.promise("dead-inherited")
async def test_a_running_engine_takes_up_what_a_dead_node_left(pair, clock):
    """A running engine takes claims up after the lease has ended, and before they run out."""
    a, b = pair
    engine = asyncio.create_task(a.engine.run())
    b.sender.hold = asyncio.Event()
    for _ in range(60):
        clock.advance(100)
        await settle()
    timers = [await create_for(b, b) for _ in range(5)]
    await b.dispatch()
    died_at = b.engine.members.lease.until
    while len(a.sent) < 5:
        assert clock.monotonic() < died_at + 3
        clock.advance(100)
        await settle()
    assert clock.monotonic() >= died_at
    [stored] = await a.store.get([timers[0].id])
    assert stored.progress.claimed_by in {None, "a"}
    stopping = asyncio.create_task(a.engine.stop(1))
    while not stopping.done():
        clock.advance(100)
        await settle()
    await asyncio.gather(stopping, engine)
