"""DynamoDB killed, paused and cut off: waits end, and what was acknowledged stays."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from duetime import model
from duetime.errors import StoreUnavailable, Unanswered
from duetime.stores import Change, Insert, Record
from duetime.stores.dynamodb import batches, beside
from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.errors import Lost
from duetime.stores.dynamodb.keys import Place
from duetime.stores.dynamodb.store import DynamoStore
from tests.cluster.proxy import Proxy
from tests.cluster.waiting import until
from tests.cluster.wires.dynamodb import TimerWrites, at_port, port_of
from tests.factories import NOW, claim_of, insert, make_event, make_timer
from tests.servers.dynamodb import DynamoServer
from tests.servers.fixtures import OwnServer
from tests.stores.dynamodb.made import HEAVY, finish_of, timer_of

OTHER = HEAVY.replace(b"x", b"y")


@asynccontextmanager
async def opened(address: Address) -> AsyncIterator[DynamoStore]:
    store = DynamoStore(address)
    await store.migrate()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def proxied(dynamodb_url) -> AsyncIterator[tuple[DynamoStore, Proxy]]:
    """A store that reaches its table through a proxy."""
    proxy = Proxy("127.0.0.1", port_of(dynamodb_url), TimerWrites)
    proxy.accept()
    async with opened(Address.parse(at_port(dynamodb_url, proxy.port))) as store:
        yield store, proxy
    await proxy.close()


async def once_dropped(proxy: Proxy, count: int) -> None:
    """Return once so many answers were lost, and lose no more."""
    await until(lambda: proxy.dropped >= count, "an answer to be lost", every=0.001)
    proxy.pass_answers()


@pytest.mark.parametrize("has_events", [False, True])
async def test_an_insert_whose_answer_is_lost_is_settled(proxied, has_events):
    """The timer is stored once, and the answer is that it is new."""
    store, proxy = proxied
    timer = make_timer()
    events = (make_event(timer),) if has_events else ()
    proxy.drop_answers()
    writing = asyncio.create_task(store.insert([Insert(timer, events)]))
    await once_dropped(proxy, 1)
    assert await writing == [None]
    assert await store.get([timer.id]) == [timer]
    assert await store.events([timer.shard], None, 9) == list(events)


@pytest.mark.parametrize("has_events", [False, True])
async def test_a_change_whose_answer_is_lost_is_settled(proxied, has_events):
    """It was written, once, and so it is told."""
    store, proxy = proxied
    timer = timer_of(has_key=True)
    await insert(store, timer)
    claim = claim_of(timer)
    events = (make_event(claim.new),) if has_events else ()
    proxy.drop_answers()
    writing = asyncio.create_task(store.apply([Change(timer, claim.new, None, events)]))
    await once_dropped(proxy, 1)
    assert await writing == [True]
    assert await store.get([timer.id]) == [claim.new]
    assert await store.events([timer.shard], None, 9) == list(events)


async def test_a_finish_whose_answer_is_lost_has_one_attempt(proxied):
    """The line of the log is there once."""
    store, proxy = proxied
    timer = timer_of()
    await insert(store, timer)
    claim = claim_of(timer)
    finish = finish_of(claim.new)
    await store.apply([claim])
    proxy.drop_answers()
    writing = asyncio.create_task(store.apply([finish]))
    await once_dropped(proxy, 1)
    assert await writing == [True]
    assert await store.attempts(timer.id, None, 9) == [finish.attempt]


async def test_a_rival_that_comes_in_between_is_noticed(proxied, dynamodb_url):
    """A change that was written and overtaken before its answer is not called lost."""
    store, proxy = proxied
    timer = timer_of()
    await insert(store, timer)
    claim = claim_of(timer)
    proxy.drop_answers()
    writing = asyncio.create_task(store.apply([claim]))
    await until(lambda: proxy.dropped, "an answer to be lost", every=0.001)
    proxy.refuse()
    async with opened(Address.parse(dynamodb_url)) as other:
        assert await other.apply([finish_of(claim.new)]) == [True]
    proxy.pass_answers()
    proxy.accept()
    with pytest.raises(StoreUnavailable, match="has changed since") as caught:
        await writing
    assert not isinstance(caught.value, Unanswered)


async def test_a_rival_that_was_quicker_than_a_lost_request_has_won(proxied, dynamodb_url):
    """A change that never arrived is not taken for the rival's, which made the same version."""
    store, proxy = proxied
    timer = timer_of()
    await insert(store, timer)
    proxy.stall()
    writing = asyncio.create_task(store.apply([claim_of(timer, "one")]))
    await until(lambda: proxy.held_back, "the request to be on its way", every=0.001)
    rival = claim_of(timer, "two")
    async with opened(Address.parse(dynamodb_url)) as other:
        assert await other.apply([rival]) == [True]
    proxy.cut()
    proxy.flow()
    assert await writing == [False]
    assert await store.get([timer.id]) == [rival.new]


class Puts:
    """Awaits the answers to whatever is put, on a connection on which something was."""

    def __init__(self) -> None:
        self._asked = b""

    def asked(self, data: bytes) -> None:
        self._asked += data

    def is_awaited(self, answer: bytes) -> bool:
        return b"DynamoDB_20120810.PutItem" in self._asked


async def test_a_document_whose_answer_is_lost_is_settled(dynamodb_url):
    """It was written, once, and so it is told."""
    proxy = Proxy("127.0.0.1", port_of(dynamodb_url), Puts)
    proxy.accept()
    first, second = (Record(kind="node", name="one", version=number) for number in (1, 2))
    async with opened(Address.parse(at_port(dynamodb_url, proxy.port))) as store:
        for old, new in ((None, first), (first, second)):
            lost = proxy.dropped + 1
            proxy.drop_answers()
            writing = asyncio.create_task(store.put_record(old, new))
            await once_dropped(proxy, lost)
            assert await writing
            assert await store.records("node") == [new]
    await proxy.close()


async def test_when_no_answer_comes_back_nobody_knows(proxied):
    """If every answer is lost, it is unanswered, and the timer tells later."""
    store, proxy = proxied
    store._calls._within = 1.0
    timer = timer_of()
    proxy.drop_answers()
    task = asyncio.create_task(store.insert([Insert(timer)]))
    await until(lambda: proxy.dropped, "an answer to be lost", every=0.001)
    proxy.refuse()
    with pytest.raises(Unanswered, match="cannot connect"):
        await task
    proxy.pass_answers()
    proxy.accept()
    assert await store.get([timer.id]) == [timer]


def lose_tidying(store: DynamoStore) -> list[tuple[str, dict[str, Any]]]:
    """From now on nothing is heard of writes that only tidy up; those that were not heard."""
    store._calls._within = 0  # a second try would end like the first one
    wire = store._calls._wire
    call, lost = wire.call, []

    async def losing(operation: str, arguments: Any, within: float) -> Any:
        if operation == "DeleteItem" or arguments.get("UpdateExpression") == "SET x = :x, v = :v":
            lost.append((operation, arguments))
            await asyncio.sleep(0)  # others are sent before this one is given up
            raise Lost("no answer", was_sent=True)
        return await call(operation, arguments, within)

    wire.call = losing
    return lost


async def test_what_only_tidies_fails_nothing_that_was_won(dropping):
    """A content was replaced and a timer has ended: so it is told, and later changes are tried."""
    timer = timer_of(HEAVY, has_key=True)
    await insert(dropping, timer)
    updated = model.update(timer, NOW, spec=timer_of(OTHER).spec, execute_at=NOW)
    claim = claim_of(updated)
    finish = finish_of(claim.new)
    lost = lose_tidying(dropping)
    assert await dropping.apply([Change(timer, updated), claim, finish]) == [True] * 3
    assert [operation for operation, _ in lost] == ["DeleteItem", *["UpdateItem"] * 2]
    assert await dropping.get([timer.id]) == [finish.new]


async def test_tidying_that_comes_late_takes_nothing_away(dropping, dynamodb_url):
    """The content is that of a newer version by then, and the timer is back to life."""
    timer = timer_of(HEAVY, has_key=True)
    await insert(dropping, timer)
    updated = model.update(timer, NOW, spec=timer_of(OTHER).spec, execute_at=NOW)
    claim = claim_of(updated)
    finish = finish_of(claim.new)
    again = model.replace(finish.new, NOW, spec=timer.spec, execute_at=NOW, fingerprint=None)
    lost = lose_tidying(dropping)
    changes = [Change(timer, updated), claim, finish, Change(finish.new, again)]
    assert await dropping.apply(changes) == [True] * 4
    async with opened(Address.parse(dynamodb_url)) as other:
        for operation, arguments in lost:
            await other._calls._judged(operation, arguments)
        assert await other.get([timer.id]) == [again]
    pointer, *parts = beside.all_of(again)
    kept = await batches.read(dropping._calls, map(Place.of, (pointer, *parts)))
    assert len(kept) == 2
    assert not any("x" in item for item in kept.values())


async def test_a_caller_that_gives_up_leaves_a_whole_write(proxied):
    """The write goes on, close waits for it, and no connection is lost."""
    store, proxy = proxied
    timers = [timer_of() for _ in range(3)]
    await insert(store, timers[0])
    proxy.stall()
    task = asyncio.create_task(store.insert([Insert(timer) for timer in timers[1:]]))
    await until(lambda: proxy.held_back, "a request to be held back", every=0.001)
    task.cancel()
    await asyncio.wait([task])
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    assert not closing.done()
    proxy.flow()
    await closing
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.get([timers[0].id])


async def test_heartbeats_do_not_wait_for_others(proxied):
    """A pool that is all in use is not theirs."""
    store, _ = proxied
    for _ in range(store._calls._wire._size):
        await store._calls._wire._places.acquire()
    record = Record(kind="node", name="a")
    assert await store.put_record(None, record)
    assert await store.records("node") == [record]


@pytest.mark.slow
async def test_killed_and_back(own_server: OwnServer):
    """What was acknowledged is there after kill -9; in between, errors come at once."""
    server: DynamoServer = own_server("dynamodb")
    async with opened(Address.parse(server.url("kept"))) as store:
        timers = [timer_of(has_key=True) for _ in range(60)]
        await insert(store, *timers)
        server.crash()
        with pytest.raises(StoreUnavailable, match="cannot connect") as caught:
            await store.insert([Insert(timer_of())])
        assert not isinstance(caught.value, Unanswered)
        with pytest.raises(StoreUnavailable):
            await store.get([timers[0].id])
        with pytest.raises(StoreUnavailable):
            await store.put_record(None, Record(kind="node", name="a"))
        server.start()
        assert await store.get([timer.id for timer in timers]) == timers
        assert await store.apply([claim_of(timer) for timer in timers]) == [True] * 60


@pytest.mark.slow
async def test_killed_in_the_middle_of_writes(own_server: OwnServer):
    """Those that were told yes are there, and those that were told no are over."""
    server: DynamoServer = own_server("dynamodb")
    async with opened(Address.parse(server.url("kept"))) as store:
        timers = [timer_of() for _ in range(400)]
        writing = [asyncio.create_task(store.insert([Insert(timer)])) for timer in timers]
        await asyncio.wait(writing, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.to_thread(server.crash)
        await asyncio.to_thread(server.start)
        answers = await asyncio.gather(*writing, return_exceptions=True)
        stored = await store.get([timer.id for timer in timers])
        lost = [
            timer for timer, answer, read in zip(timers, answers, stored, strict=True)
            if answer == [None] and read is None
        ]  # fmt: skip
        assert lost == []
        assert all(answer == [None] or isinstance(answer, StoreUnavailable) for answer in answers)


@pytest.mark.slow
async def test_paused_for_ten_seconds(own_server: OwnServer):
    """A heartbeat ends before the pause does, a write outlasts it, and all works again."""
    server: DynamoServer = own_server("dynamodb")
    async with opened(Address.parse(server.url("kept"))) as store:
        timer, other = timer_of(), timer_of()
        await insert(store, timer)
        server.pause()
        loop = asyncio.get_running_loop()
        started = loop.time()
        writing = asyncio.create_task(store.insert([Insert(other)]))
        with pytest.raises(StoreUnavailable):
            await store.put_record(None, Record(kind="node", name="a"))
        await asyncio.sleep(10 - (loop.time() - started))
        server.resume()
        assert await writing == [None]
        assert await store.get([timer.id, other.id]) == [timer, other]
        record = Record(kind="node", name="b")
        assert await store.put_record(None, record)
        assert record in await store.records("node")
