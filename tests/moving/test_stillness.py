"""No node may work on either side of a copy."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from duetime.engine.members import Members
from duetime.errors import InUse
from duetime.moving.copying import Copy
from duetime.nodes import LEAVING, NODE_KIND, NodeRecord
from duetime.stores import Record
from tests.factories import insert, make_timer
from tests.moving.houses import Listening, copied, furnished, holdings, passing

SIDES = {"FROM": 0, "TO": 1}


@pytest.fixture
def stores(source, target):
    return [source, target]


def left_behind(ttl):
    """The record of a node that crashed."""
    about = NodeRecord(ttl=ttl, host="web-1", pid=4711)
    return Record(kind=NODE_KIND, name="crashed", version=17, data=msgspec.json.encode(about))


@pytest.mark.parametrize("side", SIDES)
async def test_a_node_that_runs_is_refused(clock, stores, side):
    """By its heartbeat; it is named, and nothing is written."""
    await furnished(stores[0])
    members = Members("node-7", stores[SIDES[side]], clock)
    await members.step()
    beats = iter(range(10_000))

    async def beat():
        if next(beats) % 20 == 19:
            await members.step()

    copy = Copy(*stores, clock, Listening(), name="here")
    with pytest.raises(InUse, match=rf"{side}: the node node-7 \(process \d+ on .*\) is running"):
        await passing(clock, copy.run(), beat)
    assert await stores[1].scan(None, 1) == []
    assert await stores[1].records("copy") == []


async def test_a_node_that_stopped_is_no_obstacle(clock, stores):
    """It took its records away, so nobody waits."""
    await furnished(stores[0])
    members = Members("node-7", stores[0], clock)
    await members.step()
    await members.leave(drain_for=25)
    await members.leave_no_trace()
    onlooker = Listening()
    await copied(*stores, clock, onlooker)
    assert onlooker.said == []


async def test_a_node_that_is_stopping_is_waited_for(clock, stores):
    """What it acknowledges at the end of its days is copied too; when it has gone, nobody waits."""
    await furnished(stores[0])
    members = Members("node-7", stores[0], clock)
    await members.step()
    await members.leave(drain_for=25)
    last = make_timer()
    ticks = iter(range(10_000))

    async def end():
        match next(ticks):
            case 49:
                await insert(stores[0], last)
                await members.leave_no_trace()

    began = clock.monotonic()
    onlooker = Listening()
    copy = Copy(*stores, clock, onlooker, name="here")
    await passing(clock, copy.run(), end)
    assert await stores[1].get([last.id]) == [last]
    assert onlooker.said == ["there are records of nodes: watching for 35 s whether they run"]
    assert 5 <= clock.monotonic() - began < 10


async def test_a_node_that_crashed_when_it_was_stopping_is_watched_for_its_time(clock, stores):
    """It had so long to end what was under way."""
    members = Members("node-7", stores[1], clock, ttl=7_000)
    await members.step()
    await members.leave(drain_for=25)
    began = clock.monotonic()
    await copied(*stores, clock)
    assert 32 <= clock.monotonic() - began < 37


async def test_a_node_that_stops_meanwhile_is_told(clock, stores):
    """It was there all the time, and nobody saw it come."""
    await furnished(stores[0])

    class Stopping(Listening):
        def at(self, task, timers):
            record = replace(left_behind(7_000), kind=LEAVING)
            stores[0]._records[LEAVING, "crashed"] = record

    with pytest.raises(InUse, match=r"FROM: the node crashed \(.*\) is stopping: begin again"):
        await copied(*stores, clock, Stopping())


async def test_a_node_that_goes_after_its_time_is_told(clock, stores):
    """It was not dead: it stood still for longer than anybody is watched."""
    await furnished(stores[0])
    await stores[0].put_record(None, left_behind(7_000))

    class Going(Listening):
        def at(self, task, timers):
            stores[0]._records.pop((NODE_KIND, "crashed"), None)

    with pytest.raises(InUse, match=r"FROM: the node crashed .* was running until now"):
        await copied(*stores, clock, Going())


@pytest.mark.parametrize("side", SIDES)
async def test_a_crashed_node_is_watched_for_its_time(clock, stores, side):
    """For as long as its record says, and no longer."""
    await furnished(stores[0])
    await stores[SIDES[side]].put_record(None, left_behind(7_000))
    began = clock.monotonic()
    onlooker = Listening()
    await copied(*stores, clock, onlooker)
    assert onlooker.said == ["there are records of nodes: watching for 7 s whether they run"]
    assert 7 <= clock.monotonic() - began < 12
    assert await holdings(stores[1]) == await holdings(stores[0])


async def test_a_node_that_wakes_up_late_is_refused(clock, stores):
    """Just before its time is over."""
    record = left_behind(7_000)
    await stores[0].put_record(None, record)
    ticks = iter(range(10_000))

    async def wake_up():
        if next(ticks) == 65:
            await stores[0].put_record(record, replace(record, version=18))

    copy = Copy(*stores, clock, Listening(), name="here")
    with pytest.raises(InUse, match="the node crashed"):
        await passing(clock, copy.run(), wake_up)


@pytest.mark.promise("whole-copy")
@pytest.mark.parametrize("side", SIDES)
async def test_a_node_that_is_started_meanwhile_is_told(clock, stores, side):
    """A copy during which a node was started does not end well: what was compared may be untrue."""
    await furnished(stores[0])

    class Starting(Listening):
        def at(self, task, timers):
            if task == "compared":
                store = stores[SIDES[side]]
                store._records[NODE_KIND, "new"] = replace(left_behind(7_000), name="new")

    with pytest.raises(InUse, match=f"{side}: the node new"):
        await copied(*stores, clock, Starting())
    assert len(await stores[1].records("copy")) == 1


class Visited:
    """A source that a node visits while its second half is compared, which takes a while."""

    def __init__(self, store, clock):
        self.store = store
        self.clock = clock
        self.scans = 0

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def scan(self, after, limit):
        self.scans += 1
        if self.scans == 6:
            self.store._records[NODE_KIND, "visitor"] = replace(left_behind(7_000), name="visitor")
            await self.clock.wait(asyncio.Event(), 2.0)
        if self.scans == 8:
            del self.store._records[NODE_KIND, "visitor"]
        return await self.store.scan(after, limit)


async def test_a_visitor_is_found_after_the_target_was_read(clock, stores):
    """The source is watched for as long as it is read, though the target is quicker."""
    await furnished(stores[0], 1_200)
    visited = Visited(stores[0], clock)
    with pytest.raises(InUse, match="FROM: the node visitor"):
        await copied(visited, stores[1], clock)
    assert visited.scans >= 6
