"""A write whose answer is lost has ended when its caller hears of it, or that is said."""

import asyncio
from urllib.parse import urlsplit

import pytest
from pymongo.errors import AutoReconnect
from pymongo.server_description import ServerDescription

from duetime.errors import StoreUnavailable, Unanswered
from duetime.stores import Change, Insert
from duetime.stores.mongodb import store as stores
from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.documents import to_id
from duetime.stores.mongodb.fate import settle
from duetime.stores.mongodb.store import MongodbStore
from tests.cluster.proxy import Proxy
from tests.cluster.wires.mongodb import TimerWrites, through
from tests.factories import claim_of, insert, make_attempt, make_timer
from tests.waiting import eventually, until


@pytest.fixture
async def proxied(url):
    """A store that reaches the server through a proxy, and the proxy."""
    proxy = Proxy("127.0.0.1", urlsplit(url).port, TimerWrites)
    proxy.accept()
    store = MongodbStore(Address.parse(through(url, proxy.port)))
    await store.migrate()
    yield store, proxy
    proxy.pass_answers()
    proxy.flow()
    await store.close()
    await proxy.close()


async def held(database, timer):
    """Hold a timer, as another write does that is not done yet; return what holds it."""
    session = database.client.start_session()
    await session.start_transaction()
    await database["timers"].update_one(
        {"_id": to_id(timer.id)}, {"$set": {"held": True}}, session=session
    )
    return session


async def test_an_answer_that_was_lost_is_asked_for_again(proxied):
    """The write was done once, and the caller hears of it."""
    store, proxy = proxied
    timer = make_timer()
    proxy.drop_answers()
    write = asyncio.create_task(store.insert([Insert(timer)]))

    async def is_lost():
        return proxy.dropped == 1

    await eventually(is_lost, "an answer to be lost")
    proxy.pass_answers()
    assert await write == [None]
    change = Change(timer, claim_of(timer).new, make_attempt(timer))
    proxy.drop_answers()
    write = asyncio.create_task(store.apply([change]))

    async def is_lost_again():
        return proxy.dropped >= 2

    await eventually(is_lost_again, "another answer to be lost")
    proxy.pass_answers()
    assert await write == [True]
    assert await store.get([timer.id]) == [change.new]
    assert await store.attempts(timer.id, None, 9) == [change.attempt]


class Commits(TimerWrites):
    """Tells the answers to commits of transactions instead."""

    def asked(self, data):
        for message in self._requests.add(data):
            if message.body[9:].startswith(b"\x10commitTransaction\x00"):
                self._writing.add(message.number)


async def test_a_removal_whose_answer_was_lost_is_asked_for_again(url):
    """It was committed once, and the caller hears which timers are gone."""
    proxy = Proxy("127.0.0.1", urlsplit(url).port, Commits)
    proxy.accept()
    store = MongodbStore(Address.parse(through(url, proxy.port)))
    await store.migrate()
    timers = [make_timer() for _ in range(3)]
    await insert(store, *timers)
    assert await store.apply([claim_of(timers[1])]) == [True]
    proxy.drop_answers()
    write = asyncio.create_task(store.remove(timers))
    await until(lambda: proxy.dropped >= 1, "an answer to be lost")
    proxy.pass_answers()
    assert await write == [True, False, True]
    await store.close()
    await proxy.close()


async def test_where_no_answer_comes_the_write_is_over(proxied, monkeypatch):
    """It was done, and whoever reads again finds that."""
    store, proxy = proxied
    timer = make_timer()
    monkeypatch.setattr(store._lane, "_within", 0.5)
    proxy.drop_answers()
    with pytest.raises(StoreUnavailable) as lost:
        await store.insert([Insert(timer)])
    assert not isinstance(lost.value, Unanswered)
    assert proxy.dropped >= 1
    assert await store.get([timer.id]) == [timer]


@pytest.mark.parametrize(
    "begin",
    [
        lambda store, timer: store.apply([claim_of(timer)]),
        lambda store, timer: store.remove([timer]),
    ],
    ids=["apply", "remove"],
)
async def test_what_took_too_long_never_lands_later(mongodb, database, monkeypatch, begin):
    """The server gives up a write that waits for another, so that a re-read is the whole truth."""
    timer = make_timer()
    await insert(mongodb, timer)
    monkeypatch.setattr(mongodb._lane, "_within", 0.5)
    session = await held(database, timer)
    with pytest.raises(StoreUnavailable) as lost:
        await begin(mongodb, timer)
    assert not isinstance(lost.value, Unanswered)
    await session.commit_transaction()
    await session.end_session()
    assert await mongodb.get([timer.id]) == [timer]
    assert await mongodb.apply([claim_of(timer)]) == [True]


async def test_a_write_that_comes_late_is_refused(mongodb, database):
    """Once a later one of its session is known, the server does not do it any more."""
    client = database.client
    timer = make_timer()
    await insert(mongodb, timer)
    async with client.start_session(causal_consistency=False) as session:
        assert await settle(database, session)
        number = session._server_session.transaction_id
        session._server_session._transaction_id = number - 2  # as if it had been sent before
        with pytest.raises(Exception, match=r"[Tt]ransaction.*[Tt]oo ?[Oo]ld|Cannot start"):
            await database["timers"].update_one(
                {"_id": to_id(timer.id)}, {"$set": {"version": 9}}, session=session
            )
    assert await mongodb.get([timer.id]) == [timer]


async def test_what_may_still_land_is_said_to(mongodb, monkeypatch):
    """Where the matter cannot be settled, nobody is told that nothing was written."""

    async def in_vain(*_):
        return False

    async def lost(*_):
        raise AutoReconnect("connection closed")

    monkeypatch.setattr(stores, "settle", in_vain)
    monkeypatch.setattr(mongodb._opened.writes, "apply", lost)
    with pytest.raises(Unanswered, match="not known whether"):
        await mongodb.apply([claim_of(make_timer())])


async def test_a_write_without_a_number_cannot_be_settled(proxied, monkeypatch):
    """The driver sends it so when it loses sight of the server at the wrong moment."""
    store, proxy = proxied
    monkeypatch.setattr(ServerDescription, "retryable_writes_supported", False)
    monkeypatch.setattr(store._lane, "_within", 0.5)
    proxy.drop_answers()
    with pytest.raises(Unanswered, match="not known whether"):
        await store.insert([Insert(make_timer())])
    proxy.pass_answers()
    await store.insert([Insert(make_timer())])


async def test_a_stalled_line_is_waited_for_no_longer_than_allowed(proxied, monkeypatch):
    """Nobody answers and nothing is closed: the caller hears that nobody knows."""
    store, proxy = proxied
    monkeypatch.setattr(store._lane, "_within", 0.3)
    monkeypatch.setattr("duetime.stores.mongodb.fate.SETTLE_WITHIN", 0.3)
    timer = make_timer()
    proxy.stall()
    with pytest.raises(Unanswered, match="not known whether"):
        await store.insert([Insert(timer)])
    proxy.flow()
    await store.insert([Insert(timer)])
    assert await store.get([timer.id]) == [timer]
