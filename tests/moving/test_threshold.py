"""A node and a copy that come in one moment do not both come in, whoever is how quick."""

import asyncio
from collections import Counter
from functools import partial
from itertools import combinations

import pytest

from duetime.engine import Engine
from duetime.engine.members import Members
from duetime.errors import ConfigurationError, InUse, StoreUnavailable
from duetime.moving.copying import Copy
from duetime.moving.journal import check_no_move
from duetime.moving.threshold import join_unless_moving
from duetime.stores import Record
from duetime.stores.memory import MemoryStore
from duetime.testing import FakeClock, RecordingSender
from tests.moving.houses import Listening

# What either asks of the target before it is in, or a little more.
OF_NODE = 4
OF_COPY = 15


class Turns:
    """Says who may ask next; when it has nothing more to say, or one has ended, whoever comes."""

    def __init__(self, order):
        self.order = list(order)
        self.changed = asyncio.Condition()

    async def take(self, who):
        async with self.changed:
            await self.changed.wait_for(lambda: self.order[:1] in ([], [who]))
            del self.order[:1]
            self.changed.notify_all()

    async def end(self, who):
        async with self.changed:
            self.order = [each for each in self.order if each != who]
            self.changed.notify_all()


class Seen:
    """A store as one of the two sees it: each question waits for its turn."""

    def __init__(self, store, who, turns):
        self.store = store
        self.who = who
        self.turns = turns

    def __getattr__(self, name):
        ask = getattr(self.store, name)
        if name not in {"records", "put_record", "scan", "lines", "insert"}:
            return ask

        async def ask_in_turn(*args, **named):
            await self.turns.take(self.who)
            return await ask(*args, **named)

        return ask_in_turn


async def node_comes(store, clock, turns, copying):
    """Whether a node comes in; it runs on until the copy has ended."""
    members = Members("node-7", Seen(store, "node", turns), clock)

    async def come():
        await members.step()

    try:
        await join_unless_moving(Seen(store, "node", turns), come=come, go=members.leave_no_trace)
    except ConfigurationError:
        return False
    finally:
        await turns.end("node")
    while not copying.done():
        await members.step()
        await clock.wait(asyncio.Event(), members.beat_every)
    return True


async def copy_comes(store, clock, turns):
    """Whether a copy comes to its end."""
    copy = Copy(MemoryStore(), Seen(store, "copy", turns), clock, Listening(), name="here")
    try:
        await copy.run()
    except InUse:
        return False
    finally:
        await turns.end("copy")
    return True


async def come_together(order):
    """Who of the two comes in, and what is left of them."""
    store, clock, turns = MemoryStore(), FakeClock(), Turns(order)
    copying = asyncio.create_task(copy_comes(store, clock, turns))
    running = asyncio.create_task(node_comes(store, clock, turns, copying))
    while not (copying.done() and running.done()):
        for _ in range(30):
            await asyncio.sleep(0)
        clock.advance(500)
    left = [len(await store.records(kind)) for kind in ("node", "leaving", "copy")]
    return running.result(), copying.result(), left


@pytest.mark.slow
async def test_in_whatever_order_they_ask():
    """Never both; who is in finds nothing of the one that is not, nor does who comes next."""
    outcomes = Counter()
    turns = OF_NODE + OF_COPY
    for places in combinations(range(turns), OF_NODE):
        order = ["node" if turn in places else "copy" for turn in range(turns)]
        node_is_in, copy_is_in, left = await come_together(order)
        outcomes[node_is_in, copy_is_in] += 1
        # The copy takes its journal away at its end as well.
        assert left == [int(node_is_in), 0, 0], order
    assert outcomes[True, True] == 0
    assert outcomes[True, False] > 10
    assert outcomes[False, True] > 10
    assert outcomes[False, False] > 0  # each has seen the other


async def test_a_node_that_is_too_early_does_not_disturb():
    """While a copy is under way, it goes without having shown itself."""
    store, shown = MemoryStore(), []
    await store.put_record(None, Record(kind="copy", name="here", data=b"{}"))

    async def come():
        shown.append("here")

    with pytest.raises(ConfigurationError, match="a copy into this database was begun"):
        await join_unless_moving(store, come=come, go=come)
    assert shown == []


async def test_a_node_that_cannot_look_again_goes():
    """It is not let in by a store that does not answer."""
    store, steps = MemoryStore(), []

    async def come():
        steps.append("come")
        store.records = failing

    async def go():
        steps.append("go")
        raise StoreUnavailable("still")

    async def failing(kind):
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable, match="away"):
        await join_unless_moving(store, come=come, go=go)
    assert steps == ["come", "go"]


async def test_a_node_of_which_nobody_knows_whether_it_has_shown_itself_goes():
    """Its record may have been written, and only the answer lost."""
    store, steps = MemoryStore(), []

    async def come():
        raise StoreUnavailable("no answer")

    async def go():
        steps.append("go")

    with pytest.raises(StoreUnavailable, match="no answer"):
        await join_unless_moving(store, come=come, go=go)
    assert steps == ["go"]


async def test_a_node_that_stood_still_looks_again():
    """A copy took it for dead and came in meanwhile: the node does nothing more, and says why."""
    store, clock = MemoryStore(), FakeClock()
    engine = Engine(
        "node-7", store, RecordingSender(), clock, readmit=partial(check_no_move, store)
    )
    await join_unless_moving(store, come=engine.join, go=engine.leave_no_trace)
    assert engine.members.lease.holds(clock.monotonic())
    clock.advance(10_000)
    await store.put_record(None, Record(kind="copy", name="here", data=b"{}"))
    running = asyncio.create_task(engine.run())
    await asyncio.wait_for(engine.is_barred.wait(), 5)
    assert not engine.members.lease.holds(clock.monotonic())
    assert not engine.members.is_writing
    stopping = asyncio.create_task(engine.stop(1))
    while not stopping.done():
        for _ in range(30):
            await asyncio.sleep(0)
        clock.advance(100)
    await asyncio.gather(stopping, running)
    await engine.leave_no_trace()
    assert await store.records("node") == []
