"""No node may work on either side of a copy."""

import msgspec
import pytest
from msgspec.structs import replace

from duetime.engine.members import Members
from duetime.errors import InUse
from duetime.moving.copying import Copy
from duetime.nodes import KIND, NodeRecord
from duetime.stores import Record
from tests.moving.houses import Listening, copied, furnished, holdings, passing

SIDES = {"FROM": 0, "TO": 1}


@pytest.fixture
def stores(source, target):
    return [source, target]


def left_behind(ttl):
    """The record of a node that crashed."""
    about = NodeRecord(ttl=ttl, host="web-1", pid=4711)
    return Record(kind=KIND, name="crashed", version=17, data=msgspec.json.encode(about))


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
    """It took its record away, so nobody waits."""
    await furnished(stores[0])
    members = Members("node-7", stores[0], clock)
    await members.step()
    await members.leave()
    onlooker = Listening()
    await copied(*stores, clock, onlooker)
    assert onlooker.said == []


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


@pytest.mark.parametrize("side", SIDES)
async def test_a_node_that_is_started_meanwhile_is_told(clock, stores, side):
    """What was compared may no longer be true: the copy does not end well."""
    await furnished(stores[0])

    class Starting(Listening):
        def at(self, task, timers):
            if task == "compared":
                store = stores[SIDES[side]]
                store._records[KIND, "new"] = replace(left_behind(7_000), name="new")

    with pytest.raises(InUse, match=f"{side}: the node new"):
        await copied(*stores, clock, Starting())
    assert len(await stores[1].records("copy")) == 1
