"""A replica set whose primary dies, hangs or is cut off: another takes over, and nothing is lost.

Whatever was acknowledged stays; and what was found not to be written, after its answer was lost,
never is.
"""

import asyncio
import time
from contextlib import contextmanager

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from duetime import ids
from duetime.errors import StoreUnavailable, Unanswered
from duetime.stores import Insert, Record
from duetime.stores.mongodb import connection
from duetime.stores.mongodb import store as stores
from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.connection import connect, database_of
from duetime.stores.mongodb.documents import to_id
from duetime.stores.mongodb.fate import SETTLE_WITHIN, settle
from duetime.stores.mongodb.lane import FREE_WITHIN, MARGIN
from duetime.stores.opening import open_store
from tests.factories import claim_of, insert, make_timer
from tests.waiting import eventually, until

pytestmark = [pytest.mark.slow, pytest.mark.long]

LONGEST = FREE_WITHIN + connection.ANSWER_WITHIN + MARGIN + SETTLE_WITHIN + 1
WRITERS = 8
TRANSACTION_TOO_OLD = 225


class Writers:
    """They insert and claim timers one after the other, and note down what is stored for sure."""

    def __init__(self, store):
        self._store = store
        self._tasks = [asyncio.create_task(self._write_on(n)) for n in range(WRITERS)]
        self._is_over = False
        self.stored = {}  # by id: the timer, or None where there is none
        self.turns = [0] * WRITERS
        self.longest = 0.0
        self.doubtful = 0
        self.looked_up = 0

    async def busy(self, count=50):
        """Wait until so many more timers are known."""
        enough = len(self.stored) + count
        await until(lambda: len(self.stored) >= enough or self._failure(), "more writes")

    async def all_done(self):
        """Wait until no write is left that had begun before."""
        turns = [turn + 2 for turn in self.turns]
        await until(
            lambda: all(map(int.__ge__, self.turns, turns)) or self._failure(), "every writer"
        )

    async def end(self):
        self._is_over = True
        await asyncio.gather(*self._tasks)

    def _failure(self):
        return any(task.done() for task in self._tasks)

    async def _write_on(self, number):
        await asyncio.sleep(0)
        while not self._is_over:
            timer = make_timer()
            if await self._written(timer, self._store.insert([Insert(timer)]), [None]):
                change = claim_of(timer)
                await self._written(change.new, self._store.apply([change]), [True])
            self.turns[number] += 1

    async def _written(self, new, write, answer):
        """Note down what a write has made of a timer; tell whether it was acknowledged."""
        before = self.stored.pop(new.id, None)
        begun = time.monotonic()
        try:
            assert await write == answer
        except Unanswered:
            self.doubtful += 1
        except StoreUnavailable:
            self.looked_up += 1
            self.stored[new.id] = await self._found(new.id)
            assert self.stored[new.id] in (before, new)
        else:
            self.stored[new.id] = new
            return True
        finally:
            self.longest = max(self.longest, time.monotonic() - begun)
        return False

    async def _found(self, id_):
        """What is stored, as soon as somebody tells."""
        while True:
            try:
                return (await self._store.get([id_]))[0]
            except StoreUnavailable:
                await asyncio.sleep(0.1)


@pytest.fixture
async def store(own_mongodb_set):
    """A store on a replica set."""
    opened = open_store(own_mongodb_set.url())
    await opened.migrate()
    yield opened
    await opened.close()


async def is_as_noted(servers, writers):
    """Whatever is known is so, for whoever asks."""
    assert writers.longest < LONGEST
    for url in (servers.url(), servers.url(appName="another")):
        store = open_store(url)
        await store.migrate()
        assert await store.get(list(writers.stored)) == list(writers.stored.values())
        await store.close()


async def test_the_primary_is_killed(own_mongodb_set, store):
    """Writers go on with the next one, without anybody doing anything."""
    servers, writers = own_mongodb_set, Writers(store)
    for _ in range(3):
        await writers.busy()
        old = await asyncio.to_thread(servers.primary)
        await asyncio.to_thread(old.crash)
        await writers.busy()
        await writers.all_done()
        await store.put_record(None, Record(kind="node", name=str(old.port) + str(time.time())))
        await asyncio.to_thread(old.start)
        await asyncio.to_thread(servers.complete)
    await writers.end()
    await is_as_noted(servers, writers)


async def test_the_primary_hangs_and_comes_back(own_mongodb_set, store):
    """What lay in front of it when it was replaced is not done by it any more, nor later."""
    servers, writers = own_mongodb_set, Writers(store)
    for _ in range(2):
        await writers.busy()
        old = await asyncio.to_thread(servers.primary)
        old.pause()
        await asyncio.to_thread(servers.primary, besides=old)
        await writers.busy()
        await writers.all_done()
        old.resume()
        await asyncio.to_thread(servers.complete)
        await writers.busy()
        await asyncio.to_thread(step_up, old)
        await writers.busy()
    await writers.end()
    await is_as_noted(servers, writers)


def until_a_majority_has(new):
    """Wait until the third member follows a new primary: it may look to the old one for a while."""
    with MongoClient(new.url(directConnection="true")) as client:
        client.get_database("other", write_concern=connection.DURABLE)["other"].insert_one({})


async def test_what_was_found_unwritten_stays_so(own_mongodb_set, store, monkeypatch):
    """It lies in front of a primary that hangs, is settled with the next, and is never done."""
    servers, timers = own_mongodb_set, [make_timer() for _ in range(WRITERS)]
    await asyncio.gather(*(insert(store, make_timer()) for _ in timers))  # on so many connections
    is_elected = asyncio.Event()

    async def settle_then(*arguments):
        await is_elected.wait()
        return await settle(*arguments)

    monkeypatch.setattr(stores, "settle", settle_then)
    old = await asyncio.to_thread(servers.primary)
    old.pause()
    with monkeypatch.context() as patched:
        patched.setattr(store._lane, "_within", 1.0)
        writes = [asyncio.create_task(store.insert([Insert(timer)])) for timer in timers]
        new = await asyncio.to_thread(servers.primary, besides=old)

        async def is_known():
            return await store._client.primary == ("127.0.0.1", new.port)

        await eventually(is_known, "the driver to know the next primary")
        await asyncio.to_thread(until_a_majority_has, new)
        is_elected.set()
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
    names = [timer.id for timer in timers]
    assert await store.get(names) == [None] * WRITERS
    old.resume()
    await asyncio.to_thread(servers.complete)
    await asyncio.to_thread(step_up, old)
    assert await store.get(names) == [None] * WRITERS


async def test_what_was_settled_stays_so_with_the_next_primary(own_mongodb_set, store):
    """A write that comes late, to a server that was none of those who settled it, is refused."""
    timer, address = make_timer(), Address.parse(own_mongodb_set.url())
    await insert(store, timer)
    async with connect(address) as client, client.start_session() as session:
        database = database_of(client, address)
        assert await settle(database, session)
        old = await asyncio.to_thread(own_mongodb_set.primary)
        await asyncio.to_thread(old.crash)
        await asyncio.to_thread(own_mongodb_set.primary, besides=old)
        session._server_session._transaction_id -= 2  # as if it had been sent before
        with pytest.raises(OperationFailure) as refused:
            await database["timers"].update_one(
                {"_id": to_id(timer.id)}, {"$set": {"version": 9}}, session=session
            )
        assert refused.value.code == TRANSACTION_TOO_OLD
    assert await store.get([timer.id]) == [timer]


async def test_a_primary_that_was_cut_off_tells_nobody_what_is_old(
    own_mongodb_set, store, monkeypatch
):
    """It takes itself for the primary still, and shows lists; but reads that must be new wait."""
    servers, timer = own_mongodb_set, make_timer()
    await insert(store, timer)
    old = await asyncio.to_thread(servers.primary)
    # Its connections are left alone while it hangs, and it is asked once it goes on.
    monkeypatch.setattr(connection, "LOOK_EVERY", 60.0)
    reader, writer = [open_store(old.url(directConnection="true")) for _ in range(2)]
    for alone in (reader, writer):
        await alone.migrate()
        assert await alone.get([timer.id]) == [timer]
        monkeypatch.setattr(alone._lane, "_within", 2.0)
        monkeypatch.setattr(alone._barriers, "_within", 2.0)
    monkeypatch.setattr("duetime.stores.mongodb.fate.SETTLE_WITHIN", 2.0)
    with stuck(old):
        old.pause()
        await asyncio.to_thread(servers.primary, besides=old)
        assert await store.apply([claim_of(timer)]) == [True]
        old.resume()
        late = make_timer()
        assert [each.version for each in await due(reader)] == [timer.version]
        with pytest.raises(StoreUnavailable, match=r"stepped down|took too long"):
            await reader.get([timer.id])
        with pytest.raises(Unanswered):
            await writer.insert([Insert(late)])
    await reader.close()
    await writer.close()
    await asyncio.to_thread(servers.complete)
    assert await store.get([timer.id, late.id]) == [claim_of(timer).new, None]


async def due(store):
    """What a store says is due, as soon as it says anything: a hint, which may be old."""
    while True:
        try:
            return await store.due(ids.ALL_SHARDS, None, 2**53, 9)
        except StoreUnavailable:
            await asyncio.sleep(0.1)


@contextmanager
def stuck(member):
    """Keep a primary from stepping down when it hears that there is another."""
    with MongoClient(member.url(directConnection="true")) as client:
        point = {"configureFailPoint": "blockHeartbeatStepdown"}
        client.admin.command(point | {"mode": "alwaysOn"})
        yield
        client.admin.command(point | {"mode": "off"})


def step_up(member):
    """Have a member stand for election until it wins."""
    while True:
        with MongoClient(member.url(directConnection="true")) as client:
            try:
                client.admin.command("replSetStepUp")
            except PyMongoError:  # it is behind just now, or the vote went to another
                continue
            return
