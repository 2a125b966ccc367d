"""A tenure: no shard is two nodes' own at the same time."""

import random

import pytest

from duetime.engine.members import Members
from duetime.engine.tenure import Tenure
from duetime.errors import StoreUnavailable
from duetime.ids import ALL_SHARDS
from duetime.stores.memory import MemoryStore
from duetime.testing import FakeClock, FlakyStore

pytestmark = pytest.mark.promise("events-arrive")


class Member:
    """A node as far as others see it, on a way of its own to the store."""

    def __init__(self, name, memory, clock, ttl=10_000) -> None:
        self.store = FlakyStore(memory)
        self.members = Members(name, self.store, clock, ttl=ttl)
        self.tenure = Tenure(self.members, clock)

    async def beat(self) -> None:
        try:
            await self.members.step()
        except StoreUnavailable:
            return
        self.tenure.look()

    @property
    def own(self) -> set[int]:
        return set(self.tenure.shards())


@pytest.fixture
def memory():
    return MemoryStore()


@pytest.fixture
def start(memory, clock):
    return lambda name, **options: Member(name, memory, clock, **options)


async def live(clock, seconds, *members):
    """Let time pass, with a heartbeat every two seconds."""
    for _ in range(round(seconds / 2)):
        clock.advance(2_000)
        for member in members:
            await member.beat()
        assert_apart(*members)


def assert_apart(*members):
    owned = [member.own for member in members]
    assert sum(map(len, owned)) == len(set().union(*owned))


async def test_a_node_alone_has_all_at_once(start):
    """Nobody else can have them; and it is all of them that the store is asked for."""
    a = start("a")
    assert a.own == set()
    await a.beat()
    assert a.tenure.shards() is ALL_SHARDS


async def test_a_node_that_comes_waits_until_all_know(start, clock):
    """The others let go of its shards when they have seen it, and it begins when they must have."""
    a = start("a")
    await live(clock, 4, a)
    b = start("b")
    await b.beat()
    await live(clock, 4, a, b)
    assert b.members.shards
    assert b.own == set()
    assert a.own == set(a.members.shards)
    await live(clock, 12, a, b)
    assert b.own == set(b.members.shards)
    assert a.own | b.own == set(ALL_SHARDS)


async def test_what_a_node_leaves_is_taken_over_at_once(start, clock):
    """Its record is gone, so it does nothing more."""
    a, b = start("a"), start("b")
    await a.beat()
    await b.beat()
    await live(clock, 20, a, b)
    await b.members.leave()
    assert b.own == set()
    await a.beat()
    assert a.own == set(ALL_SHARDS)


async def test_what_a_dead_node_had_is_taken_over_at_once(start, clock):
    """It is dead when its lease has ended for sure."""
    a, b = start("a"), start("b")
    await a.beat()
    await b.beat()
    await live(clock, 20, a, b)
    had = b.own
    assert had
    while not a.own & had:
        clock.advance(500)
        await a.beat()
        assert_apart(a, b)
    assert not b.tenure.holds()
    assert a.own == set(ALL_SHARDS)


async def test_a_node_that_cannot_see_the_others_has_nothing(start, clock):
    """Others may have come or have taken it for dead, so it does nothing until it looks again."""
    a, b = start("a"), start("b")
    await a.beat()
    await b.beat()
    await live(clock, 20, a, b)
    b.store.failing = "before"
    await live(clock, 20, a, b)
    assert b.own == set()
    assert a.own == set(ALL_SHARDS)
    b.store.failing = None
    await live(clock, 6, a, b)
    assert b.members.shards
    assert b.own == set()  # it comes anew
    await live(clock, 20, a, b)
    assert b.own == set(b.members.shards) != set()


async def test_a_record_that_stands_still_is_no_proof(start, clock, memory):
    """A newcomer passes it over, and waits all the same: its node may be slow."""
    a = start("a")
    await live(clock, 4, a)
    b = start("b")
    for _ in range(3):  # a does not show itself meanwhile
        await b.beat()
        clock.advance(1_500)
    await b.beat()
    assert set(b.members.shards) == set(ALL_SHARDS)
    assert b.own == set()
    assert a.own == set(ALL_SHARDS)
    await live(clock, 20, b)
    assert a.own == set()
    assert b.own == set(ALL_SHARDS)


async def test_a_node_that_starts_again_after_a_crash(start, clock):
    """It has all to itself as soon as the one that it was is dead for sure."""
    await start("a").beat()
    b = start("b")
    began_at = clock.monotonic()
    while not b.own:
        await b.beat()
        clock.advance(500)
        assert clock.monotonic() < began_at + 12
    assert b.own == set(ALL_SHARDS)
    assert clock.monotonic() >= began_at + 10


async def test_the_longest_time_to_live_counts(start, clock):
    """A node with another setting may act for longer upon what it saw."""
    a = start("a", ttl=60_000)
    await live(clock, 4, a)
    b = start("b", ttl=2_000)
    for _ in range(12):
        await b.beat()
        clock.advance(400)
    assert b.members.shards
    assert b.own == set()
    for _ in range(200):
        clock.advance(400)
        await b.beat()
        assert_apart(a, b)
    assert b.own == set(b.members.shards)


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 20))]
)
async def test_whatever_happens_no_shard_is_of_two(seed, memory):
    """Nodes come, leave, die, stall and lose their store, and beat when they please."""
    dice, clock = random.Random(seed), FakeClock()
    members, made = [], 0
    for _ in range(400):
        clock.advance(dice.choice([1, 50, 400, 1_000, 2_000]))
        chance = dice.random()
        if len(members) < 2 or (chance < 0.02 and len(members) < 5):
            made += 1
            members.append(Member(f"node-{made}", memory, clock))
        elif chance < 0.03:  # killed: it does nothing more
            members.remove(dice.choice(members))
        elif chance < 0.04:
            gone = dice.choice(members)
            gone.store.failing = None
            await gone.members.leave()
            members.remove(gone)
        elif chance < 0.08:
            some = dice.choice(members)
            some.store.failing = None if some.store.failing else "before"
        for member in members:
            if dice.random() < 0.7:
                await member.beat()
            assert_apart(*members)
