"""Who is taken for alive, and which shards fall to whom."""

import pytest

from duetime.engine.members import KIND, Members, shards_of
from duetime.ids import ALL_SHARDS
from duetime.stores.memory import MemoryStore


@pytest.fixture
def store():
    return MemoryStore()


async def beat(clock, *members, times=1):
    for _ in range(times):
        clock.advance(2_000)
        for member in members:
            await member.step()


async def test_a_node_alone_has_every_shard(store, clock):
    """Nobody to share with."""
    a = Members("a", store, clock)
    await a.step()
    assert a.shards == ALL_SHARDS


async def test_nodes_share_all_shards_without_overlap(store, clock):
    """Once they have seen each other, each shard has one node."""
    members = [Members(name, store, clock) for name in "abc"]
    await beat(clock, *members, times=3)
    shares = [set(member.shards) for member in members]
    assert set.union(*shares) == set(ALL_SHARDS)
    assert sum(map(len, shares)) == len(ALL_SHARDS)
    assert min(map(len, shares)) > 1_000


async def test_a_newcomer_does_not_wait_for_a_dead_nodes_record(store, clock):
    """A record that was there before and does not move yet is nobody: a restart loses no time."""
    old = Members("old", store, clock)
    await old.step()
    new = Members("new", store, clock)
    await new.step()
    assert new.shards == ALL_SHARDS


async def test_a_node_that_stands_still_is_dead_by_the_observers_clock(store, clock):
    """After some missed heartbeats the others share its shards."""
    a, b = Members("a", store, clock), Members("b", store, clock)
    await beat(clock, a, b, times=3)
    assert a.shards != ALL_SHARDS
    await beat(clock, a, times=3)
    assert a.shards != ALL_SHARDS
    await beat(clock, a, times=2)
    assert a.shards == ALL_SHARDS


async def test_a_wall_clock_that_jumps_kills_nobody(store, clock):
    """Membership uses monotonic time only."""
    a, b = Members("a", store, clock), Members("b", store, clock)
    await beat(clock, a, b, times=3)
    share = a.shards
    clock.step_wall_clock(86_400_000)
    await beat(clock, a, b)
    assert a.shards == share


async def test_a_node_that_leaves_is_gone_at_once(store, clock):
    """Leaving takes the record away."""
    a, b = Members("a", store, clock), Members("b", store, clock)
    await beat(clock, a, b, times=3)
    await b.leave()
    await beat(clock, a)
    assert a.shards == ALL_SHARDS


async def test_records_of_long_dead_nodes_are_removed(store, clock):
    """The list of nodes does not grow with every restart."""
    for number in range(5):
        await Members(f"dead-{number}", store, clock).step()
    a = Members("a", store, clock)
    await beat(clock, a, times=60)
    assert [record.name for record in await store.records(KIND)] == ["a"]


async def test_a_node_whose_record_was_removed_comes_back(store, clock):
    """Taken for dead while it only slept, a node writes its record anew."""
    a = Members("a", store, clock)
    await a.step()
    [record] = await store.records(KIND)
    await store.put_record(record, None)
    await a.step()
    assert [record.name for record in await store.records(KIND)] == ["a"]
    assert a.is_writing


async def test_a_heartbeat_whose_answer_was_lost_is_no_obstacle(store, clock):
    """The version that landed unheard is looked up."""
    from duetime.testing import FlakyStore  # noqa: PLC0415 - only here

    flaky = FlakyStore(store)
    a = Members("a", flaky, clock)
    await a.step()
    flaky.failing = "after"
    with pytest.raises(Exception, match="after it was done"):
        await a.step()
    flaky.failing = None
    clock.advance(2_000)
    await a.step()
    assert a.is_writing


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_node_that_goes_moves_only_its_own_shards(count):
    """Rendezvous hashing: nobody else's shards change hands."""
    nodes = [f"node-{number}" for number in range(count)]
    before = {shard: node for node in nodes for shard in shards_of(node, nodes)}
    left = nodes[1:]
    after = {shard: node for node in left for shard in shards_of(node, left)}
    moved = [shard for shard in ALL_SHARDS if before[shard] != after[shard]]
    assert {before[shard] for shard in moved} == {nodes[0]}
