"""What makes a read see all that was acknowledged before."""

import asyncio

import pytest
from bson.timestamp import Timestamp

from duetime.errors import StoreUnavailable
from duetime.stores.mongodb import store as store_module
from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.barrier import Barrier
from duetime.stores.mongodb.lane import Lane
from duetime.stores.mongodb.store import MongodbStore
from tests.factories import insert, key_of, make_timer
from tests.stores.mongodb.said import Said


async def test_a_read_asks_for_what_is_as_new_as_a_write_before_it(url, monkeypatch):
    """A majority has the write, and the read may not be answered from before it."""
    said = Said(monkeypatch)
    store = MongodbStore(Address.parse(url))
    await store.migrate()
    timer = make_timer()
    await insert(store, timer)
    for read in (
        lambda: store.get([timer.id]),
        lambda: store.get_by_key([key_of(timer)]),
        lambda: store.records("node"),
    ):
        said.commands.clear()
        await read()
        (write, asked), (_, done), (find, wanted) = said.commands
        assert (write, asked["update"], find) == ("update", "fences", "find")
        assert asked["writeConcern"] == {"w": "majority", "j": True}
        assert wanted["readConcern"]["level"] == "majority"
        assert wanted["readConcern"]["afterClusterTime"] >= done["operationTime"]
    await store.close()


class Steps:
    """A barrier's writes, one step at a time."""

    def __init__(self, monkeypatch):
        self.begun = 0
        self.go_on = asyncio.Semaphore(0)
        self.barrier = Barrier(Lane(1, 5))
        monkeypatch.setattr(self.barrier, "_write", self._write)

    async def _write(self, _):
        self.begun += 1
        number = self.begun
        await self.go_on.acquire()
        return Timestamp(number, 0)

    def passing(self):
        return asyncio.create_task(self.barrier.passed(None))


async def turns(count=10):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_reads_that_come_together_share_a_write(monkeypatch):
    """But no read makes do with a write that had begun before it."""
    steps = Steps(monkeypatch)
    first = steps.passing()
    await turns()
    assert steps.begun == 1
    others = [steps.passing() for _ in range(5)]
    await turns()
    assert steps.begun == 1
    steps.go_on.release()
    assert await first == Timestamp(1, 0)
    await turns()
    steps.go_on.release()
    assert await asyncio.gather(*others) == [Timestamp(2, 0)] * 5
    assert steps.begun == 2


async def test_a_write_that_fails_is_told_to_those_who_wait_for_it(monkeypatch):
    """And the next one is tried all the same."""
    barrier = Barrier(Lane(1, 5))
    answers = iter([StoreUnavailable("away"), Timestamp(2, 0)])

    async def write(_):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(barrier, "_write", write)
    with pytest.raises(StoreUnavailable, match="away"):
        await barrier.passed(None)
    assert await barrier.passed(None) == Timestamp(2, 0)


async def test_a_read_waits_no_longer_than_any_other_question(mongodb, monkeypatch):
    """However long the barrier before its own takes."""
    monkeypatch.setattr(store_module, "ANSWER_WITHIN", 0.1)
    monkeypatch.setattr(store_module, "MARGIN", 0.0)
    never = asyncio.Event()
    monkeypatch.setattr(mongodb._barrier, "_write", lambda _: never.wait())
    with pytest.raises(StoreUnavailable, match="no answer in time"):
        await mongodb.get([make_timer().id])
    never.set()


async def test_who_goes_away_does_not_stop_the_others(monkeypatch):
    """The write that they share goes on."""
    steps = Steps(monkeypatch)
    first, second = steps.passing(), steps.passing()
    await turns()
    first.cancel()
    await turns()
    steps.go_on.release()
    assert await second == Timestamp(1, 0)
    third = steps.passing()
    await turns()
    steps.go_on.release()
    assert await third == Timestamp(2, 0)
