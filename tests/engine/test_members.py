"""Who is taken for alive, and who shares the shards with whom."""

import msgspec
import pytest

from duetime.engine.members import Members
from duetime.ids import ALL_SHARDS
from duetime.nodes import NODE_KIND, NodeRecord
from duetime.stores import News, Record
from duetime.stores.memory import MemoryStore
from duetime.testing import FlakyStore
from tests.engine.heartbeats import beat, joined, record
from tests.waiting import settle


@pytest.fixture
def store():
    return MemoryStore()


async def test_a_node_alone_has_every_shard(store, clock):
    """Nobody to share with, and nobody to watch."""
    a = Members("a", store, clock)
    await a.step()
    assert a.shards == ALL_SHARDS
    assert a.is_alone


async def test_nodes_share_all_shards_without_overlap(store, clock):
    """Once they have seen each other, each shard has one node."""
    members = [Members(name, store, clock) for name in "abc"]
    await joined(clock, *members)
    shares = [set(member.shards) for member in members]
    assert set.union(*shares) == set(ALL_SHARDS)
    assert sum(map(len, shares)) == len(ALL_SHARDS)
    assert min(map(len, shares)) > 1_000


async def test_a_newcomer_listens_first(store, clock):
    """It has no shards before it knows who is alive, and the others keep theirs as long."""
    a, b = Members("a", store, clock), Members("b", store, clock)
    await a.step()
    await b.step()
    await a.step()
    assert b.shards == ()
    assert a.shards == ALL_SHARDS
    await b.step()  # it sees that a has moved
    assert 0 < len(b.shards) < len(ALL_SHARDS)
    await a.step()
    assert set(a.shards) == set(ALL_SHARDS) - set(b.shards)


class Listening:
    """A meter that only notes of whom it hears."""

    def __init__(self):
        self.heard = None

    def hear(self, others):
        self.heard = set(others)

    def demand(self):
        return {}

    growth = demand


async def test_limits_are_shared_before_shards_are(store, clock):
    """Who comes takes requests at once: it hears of the others, and they of it, from the first."""
    meters = [Listening() for _ in range(3)]
    a, b, c = (
        Members(name, store, clock, meter=meter) for name, meter in zip("abc", meters, strict=True)
    )
    await a.step()
    await b.step()
    await a.step()
    assert (b.shards, [meter.heard for meter in meters[:2]]) == ((), [{"b"}, {"a"}])
    await c.step()
    assert meters[2].heard == {"a", "b"}
    clock.advance(2_500)
    await a.step()
    await c.step()
    assert meters[2].heard == {"a"}  # b had the time to show itself


async def test_a_newcomer_waits_for_a_dead_nodes_record_one_heartbeat_and_no_ttl(store, clock):
    """Whoever is alive would have moved by then: a restart after a crash loses little time."""
    await Members("old", store, clock).step()
    new = Members("new", store, clock)
    await new.step()
    clock.advance(2_499)
    await new.step()
    assert new.shards == ()
    clock.advance(1)
    await new.step()
    assert new.shards == ALL_SHARDS


async def test_a_newcomer_does_not_wait_for_a_node_that_is_known_to_have_ended(store, clock):
    """A restart after a crash loses no time; the claims of the dead are taken up in their time."""
    await Members("old", store, clock).step()
    died = []
    new = Members("new", store, clock, has_ended=lambda _: True, on_death=died.append)
    await new.step()
    assert new.shards == ALL_SHARDS
    assert new.has_rivals  # what no row decides is not its own yet
    await beat(clock, new, times=4)
    assert died == []
    await beat(clock, new)
    assert died == [{"old": 10_000}]


async def test_a_newcomer_waits_for_others_though_one_has_ended(store, clock):
    """Each is asked for itself."""
    for name, pid in (("gone", 1), ("there", 2)):
        data = msgspec.json.encode(NodeRecord(pid=pid))
        await store.put_record(None, Record(kind=NODE_KIND, name=name, version=1, data=data))
    new = Members("new", store, clock, has_ended=lambda about: about.pid == 1)
    await new.step()
    assert new.shards == ()


async def test_a_node_that_was_thought_to_have_ended_is_back_when_it_moves(store, clock):
    """Another machine may go by the same name: that wastes the work of one heartbeat."""
    there, new = Members("there", store, clock), Members("new", store, clock, has_ended=bool)
    await there.step()
    await new.step()
    assert new.shards == ALL_SHARDS
    clock.advance(2_000)
    await there.step()
    await new.step()
    assert set(new.shards) == set(ALL_SHARDS) - set(there.shards)


async def test_a_newcomer_waits_as_long_as_the_others_declare(store, clock):
    """Their heartbeat counts, not its own."""
    await Members("old", store, clock, ttl=1_000).step()
    new = Members("new", store, clock)
    await new.step()
    clock.advance(250)
    await new.step()
    assert new.shards == ALL_SHARDS


async def test_a_slow_node_that_was_passed_over_is_back_when_it_moves(store, clock):
    """The newcomer was wrong about it for a moment, which costs nothing."""
    slow, new = Members("slow", store, clock), Members("new", store, clock)
    await slow.step()
    await new.step()
    clock.advance(3_000)
    await new.step()
    assert new.shards == ALL_SHARDS
    await slow.step()
    await new.step()
    assert set(new.shards) == set(ALL_SHARDS) - set(slow.shards)


@pytest.mark.promise("dead-inherited")
async def test_a_node_that_stands_still_is_dead_by_the_observers_clock(store, clock):
    """A node is dead after the time that it declares, from when it was seen to move last."""
    a, b = Members("a", store, clock), Members("b", store, clock)
    await joined(clock, a, b)
    await a.step()
    share = a.shards
    await beat(clock, a, times=4)
    clock.advance(1_999)
    await a.step()
    assert a.shards == share
    clock.advance(1)
    await a.step()
    assert a.shards == ALL_SHARDS


async def test_each_node_says_itself_how_long_it_may_stand_still(store, clock):
    """Nodes with different settings get along."""
    deaths = []
    a = Members("a", store, clock, on_death=deaths.append)
    b = Members("b", store, clock, ttl=60_000)
    await joined(clock, a, b)
    await a.step()
    await beat(clock, a, times=29)
    clock.advance(1_999)
    await a.step()
    assert a.shards != ALL_SHARDS
    clock.advance(1)
    await a.step()
    assert a.shards == ALL_SHARDS
    assert [list(each) for each in deaths] == [["b"]]


async def test_a_node_that_beats_faster_is_found_dead_too(store, clock):
    """Who looks less often than others beat is not blind for that."""
    deaths = []
    a = Members("a", store, clock, on_death=deaths.append)
    b = Members("b", store, clock, ttl=1_000)
    await joined(clock, a, b)
    await a.step()
    assert a.shards != ALL_SHARDS
    await beat(clock, a)
    assert a.shards == ALL_SHARDS
    assert deaths == [{"b": 1_000}]


async def test_a_slow_store_does_not_keep_the_dead_alive(store, clock):
    """However long each look takes, who does not move loses its shards after a while."""
    a, b = Members("a", store, clock), Members("b", store, clock)
    await joined(clock, a, b)
    for _ in range(3):
        clock.advance(5_500)  # a heartbeat that took long, every time
        await a.step()
    assert a.shards == ALL_SHARDS


async def test_a_slow_store_does_not_keep_a_newcomer_out(store, clock):
    """It takes its shards, though it never looks twice within a heartbeat."""
    await Members("dead", store, clock).step()
    new = Members("new", store, clock)
    for _ in range(4):
        await new.step()
        clock.advance(5_500)
    assert new.shards == ALL_SHARDS


@pytest.mark.promise("dead-inherited")
async def test_nobody_is_dead_because_the_store_was_away(store, clock):
    """The first node that is back does not judge those that could not write either."""
    deaths = []
    a = Members("a", store, clock, on_death=deaths.append)
    b = Members("b", store, clock)
    await joined(clock, a, b)
    share = a.shards
    clock.advance(60_000)  # neither could read or write
    await a.step()
    assert a.shards == share
    clock.advance(2_000)
    await b.step()
    await a.step()
    assert a.shards == share
    assert b.shards
    assert deaths == []


async def test_who_stood_still_before_the_store_was_away_is_not_dead_for_that(store, clock):
    """The time before and the time after do not add up: it has a ttl again from when it is back."""
    deaths = []
    a = Members("a", store, clock, on_death=deaths.append)
    b = Members("b", store, clock)
    await joined(clock, a, b)
    await a.step()  # it has seen the last that b wrote
    share = a.shards
    clock.advance(60_000)
    await a.step()
    clock.advance(2_000)
    await a.step()
    assert a.shards == share
    assert deaths == []
    await b.step()
    await beat(clock, a, b)
    assert a.shards == share
    assert deaths == []


async def test_a_death_is_told_once(store, clock):
    """Nobody looks for the same claims again and again, nor after an outage."""
    deaths = []
    a = Members("a", store, clock, on_death=deaths.append)
    b = Members("b", store, clock)
    await joined(clock, a, b)
    await beat(clock, a, times=10)
    assert len(deaths) == 1
    clock.advance(60_000)
    await beat(clock, a, times=2)
    assert len(deaths) == 1


async def test_a_node_that_runs_no_engine_has_no_shards(store, clock):
    """However often its record moves, all of them stay with those that fire timers."""
    a = Members("a", store, clock)
    await a.step()
    data = msgspec.json.encode(NodeRecord(ttl=10_000, beat_every=2_000, runs_engine=False))
    before = None
    for version in range(1, 5):
        after = Record(kind=NODE_KIND, name="b", version=version, data=data)
        assert await store.put_record(before, after)
        before = after
        await beat(clock, a)
    assert a.shards == ALL_SHARDS
    assert [node.state for node in a.nodes()] == ["alive", "alive"]


async def test_who_died_while_the_store_was_away_is_passed_over_soon(store, clock):
    """A heartbeat later others look after its shards; it is surely dead a ttl later."""
    deaths = []
    a = Members("a", store, clock, on_death=deaths.append)
    b = Members("b", store, clock)
    await joined(clock, a, b)
    clock.advance(60_000)
    await a.step()
    clock.advance(2_500)
    await a.step()
    assert a.shards == ALL_SHARDS
    assert deaths == []
    await beat(clock, a, times=4)
    assert len(deaths) == 1


async def test_a_wall_clock_that_jumps_kills_nobody(store, clock):
    """Membership uses monotonic time only."""
    a, b = Members("a", store, clock), Members("b", store, clock)
    await joined(clock, a, b)
    share = a.shards
    clock.step_wall_clock(86_400_000)
    await beat(clock, a, b)
    assert a.shards == share


async def test_others_are_told_of_who_comes_and_goes(store, clock):
    """After the first heartbeat, when it takes its shards, and when it leaves; no more often."""
    heard = []
    store.listen(heard.append)
    a, b = Members("a", store, clock), Members("b", store, clock)
    await a.step()
    await settle()
    assert heard == [News(is_about_nodes=True)]
    await joined(clock, a, b)
    await settle()
    assert len(heard) == 3
    await b.leave()
    await settle()
    assert len(heard) == 4


async def test_records_of_long_dead_nodes_are_removed(store, clock):
    """The list of nodes does not grow with every restart."""
    for number in range(5):
        await Members(f"dead-{number}", store, clock).step()
    a = Members("a", store, clock)
    await beat(clock, a, times=1 + 10 * 5)  # ten times as long as they may stand still
    assert len(await store.records(NODE_KIND)) == 6
    await beat(clock, a)
    assert [record.name for record in await store.records(NODE_KIND)] == ["a"]


async def test_a_node_whose_record_was_removed_comes_back(store, clock):
    """Taken for dead while it only slept, a node writes its record anew."""
    a = Members("a", store, clock)
    await a.step()
    [before] = await store.records(NODE_KIND)
    await store.put_record(before, None)
    await a.step()
    [after] = await store.records(NODE_KIND)
    assert after.version > before.version
    assert a.is_writing


@pytest.mark.parametrize("failing", ["before", "after"])
async def test_a_heartbeat_whose_answer_was_lost_is_no_obstacle(store, clock, failing):
    """The version that landed unheard is looked up."""
    flaky = FlakyStore(store)
    a = Members("a", flaky, clock)
    await a.step()
    flaky.failing = failing
    with pytest.raises(Exception, match="as told"):
        await a._beat()
    flaky.failing = None
    clock.advance(2_000)
    await a.step()
    assert a.is_writing
    await a.leave()
    assert await store.records(NODE_KIND) == []


async def test_a_record_that_cannot_be_read_is_a_node_all_the_same(store, clock):
    """Another version may have written it."""
    a, b = Members("a", store, clock), Members("b", store, clock)
    await joined(clock, a, b)
    stored = next(each for each in await store.records(NODE_KIND) if each.name == "b")
    changed = msgspec.structs.replace(stored, version=99, data=b'{"ttl": "soon"}')
    assert await store.put_record(stored, changed)
    share = a.shards
    await a.step()
    assert a.shards == share


async def test_a_record_says_how_the_node_is(store, clock):
    """What GET /nodes shows of it."""
    a = Members("a", store, clock, ttl=5_000, behind=lambda: 17)
    await a.step()
    [stored] = await store.records(NODE_KIND)
    about = record(stored)
    assert (about.ttl, about.beat_every, about.shards, about.behind_ms) == (5_000, 1_000, 4096, 17)
    assert about.started_at == clock.now()
    assert about.host
    assert about.pid
    assert about.version
    assert not about.is_joining
