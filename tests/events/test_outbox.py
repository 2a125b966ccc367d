"""The outbox: events are there exactly if the change is that they tell of."""

import pytest
from msgspec.structs import replace

from duetime import model
from duetime.errors import StoreUnavailable, Unavailable
from duetime.events.changes import of_change, of_new
from duetime.ids import ALL_SHARDS
from duetime.outbox import Outbox
from duetime.stores import Change, Insert
from duetime.stores.memory import MemoryStore
from duetime.stores.sqlite.store import SqliteStore
from duetime.stores.wrapper import Wrapper
from duetime.testing import FakeClock, FlakyStore
from tests.engine.conftest import Node
from tests.factories import NODE, NOW, claim_of, make_timer

pytestmark = pytest.mark.promise("events-complete")


@pytest.fixture(params=["memory", "sqlite"])
async def outbox(request, tmp_path):
    """A store with an outbox."""
    if request.param == "memory":
        store = MemoryStore()
    else:
        store = SqliteStore(tmp_path / "duetime.db", synchronous="off")
    await store.migrate()
    yield Outbox(store)
    await store.close()


async def told(store) -> list:
    return await store.events(ALL_SHARDS, None, 10_000)


async def test_what_is_written_is_told(outbox):
    """A new timer and each of its changes leave their events, in order."""
    timer = make_timer()
    assert await outbox.insert([Insert(timer)]) == [None]
    claimed = model.claim(timer, NODE, NOW + 1, 10_000)
    assert await outbox.apply([Change(timer, claimed)]) == [True]
    released = model.release(claimed, NOW + 2, was_sent=False)
    assert await outbox.apply([Change(claimed, released)]) == [True]
    assert [(event.version, event.type) for event in await told(outbox)] == [
        (1, "created"),
        (2, "due"),
        (2, "attempt_started"),
        (3, "handed_back"),
    ]


async def test_a_change_that_loses_is_not_told(outbox):
    """Of two that change the same version, only the winner leaves events."""
    timer = make_timer()
    await outbox.insert([Insert(timer)])
    canceled = model.cancel(timer, NOW + 1)
    claimed = model.claim(timer, NODE, NOW + 1, 10_000)
    assert await outbox.apply([Change(timer, canceled), Change(timer, claimed)]) == [True, False]
    assert [event.type for event in await told(outbox)] == ["created", "canceled"]


async def test_an_insert_that_finds_its_key_taken_is_not_told(outbox):
    """The one that was there has been told of; nothing else has happened."""
    timer = make_timer(timer_id="key")
    other = make_timer(timer_id="key")
    assert await outbox.insert([Insert(timer), Insert(other)]) == [None, timer]
    assert await outbox.insert([Insert(other)]) == [timer]
    assert await told(outbox) == list(of_new(timer))


async def test_events_that_are_brought_along_stand(outbox):
    """Whoever has events to write says all that is told."""
    timer = make_timer()
    [mine] = of_new(replace(timer, timer_id="another"))
    await outbox.insert([Insert(timer, (mine,))])
    assert await told(outbox) == [mine]


class FailingInserts(Wrapper):
    """A store whose inserts fail, before they are done or after."""

    is_done = False

    async def insert(self, inserts):
        if self.is_done:
            await super().insert(inserts)
        raise StoreUnavailable("as told")


@pytest.mark.promise("failing-store")
async def test_a_create_that_failed_after_its_write_is_told_once():
    """It is read again, and not written again."""
    store = FailingInserts(MemoryStore())
    store.is_done = True
    timer = await Node(Outbox(store), FakeClock()).create()
    assert await told(store) == list(of_new(timer))


@pytest.mark.promise("failing-store")
async def test_a_create_that_failed_before_its_write_is_not_told():
    """Nothing was written, so nothing has happened."""
    store = FailingInserts(MemoryStore())
    with pytest.raises(Unavailable):
        await Node(Outbox(store), FakeClock()).create()
    assert await told(store) == []


async def test_a_claim_whose_answer_was_lost_is_told_once():
    """The engine reads again what became of it, and writes nothing twice."""
    flaky = FlakyStore(MemoryStore())
    node = Node(Outbox(flaky), FakeClock())
    await node.create()
    await node.engine.reader.step()
    flaky.failing = "after"
    with pytest.raises(StoreUnavailable):
        await node.engine.dispatcher.step()
    flaky.failing = None
    await node.turn()
    types = [event.type for event in await told(flaky.store)]
    assert types == ["created", "due", "attempt_started", "completed"]


async def test_whoever_publishes_is_woken(outbox):
    """After each write, and not before it."""
    heard = []
    outbox.on_events = heard.append
    timer = make_timer(shard=7)
    await outbox.insert([Insert(timer)])
    assert heard == [{7}]
    change = claim_of(timer)
    await outbox.apply([change])
    assert heard == [{7}, {7}]
    assert await told(outbox) == [*of_new(timer), *of_change(change.old, change.new, None)]
