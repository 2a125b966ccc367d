"""A write without an answer: it is over when the store says so, and unknown when it cannot tell."""

import asyncio

import pytest

from duetime.errors import StoreUnavailable, Unanswered
from duetime.stores import Insert
from duetime.stores.cassandra import fence, session
from duetime.stores.cassandra import statements as cql
from tests.cluster.proxy import running_proxy
from tests.cluster.wires.cassandra import TimerWrites
from tests.factories import claim_of, insert, make_timer
from tests.servers.fixtures import OwnServer
from tests.waiting import eventually


def through(url, port):
    """The same keyspace, reached through a proxy."""
    return f"cassandra://127.0.0.1:{port}/{url.rpartition('/')[2]}"


def port_of(url):
    return int(url.rpartition("/")[0].rpartition(":")[2])


async def test_an_answer_that_is_lost_after_the_write(cassandra_url, open_store):
    """The write is over when the store raises, and a look tells that it was made."""
    async with running_proxy(port_of(cassandra_url), TimerWrites) as proxy:
        store = await open_store(through(cassandra_url, proxy.port))
        direct = await open_store(cassandra_url)
        timer = make_timer()
        proxy.drop_answers()
        with pytest.raises(StoreUnavailable) as raised:
            await store.insert([Insert(timer)])
        assert not isinstance(raised.value, Unanswered)
        assert proxy.dropped == 1
        assert await direct.get([timer.id]) == [timer]
        change = claim_of(timer)
        with pytest.raises(StoreUnavailable):
            await store.apply([change])
        assert await direct.get([timer.id]) == [change.new]
        proxy.pass_answers()
        assert await store.insert([Insert(timer)]) == [change.new]


async def test_a_request_that_arrives_after_all_changes_nothing(cassandra, somebody):
    """A batch that waited somewhere until the fence was raised is refused."""
    timer, late = make_timer(shard=3), make_timer(shard=3)
    await insert(cassandra, timer)
    rooms = cassandra._rooms
    lane = rooms.lanes.known(3)
    before = lane.ground
    assert await fence.settle(lane._session, 3, before.epoch)
    assert not somebody.execute(
        cql.FENCE.replace("duetime.", "").replace("?", "%s"), (before.epoch, 3, before.epoch)
    ).was_applied
    await insert(cassandra, late)  # the store finds the new epoch by itself
    assert lane.ground.epoch == before.epoch + 1
    assert await cassandra.get([timer.id, late.id]) == [timer, late]


async def test_two_that_settle_at_once(cassandra, open_store, cassandra_url):
    """Whoever finds the epoch raised already is sure as well."""
    timer = make_timer(shard=3)
    await insert(cassandra, timer)
    lane = cassandra._rooms.lanes.known(3)
    settled = await asyncio.gather(
        *(fence.settle(lane._session, 3, lane.ground.epoch) for _ in range(5))
    )
    assert settled == [True] * 5
    assert await cassandra.apply([claim_of(timer)]) == [True]


@pytest.mark.slow
async def test_a_server_that_hangs(own_server: OwnServer, open_store, monkeypatch):
    """Every call ends in time; what nobody can know is said so; and all goes on afterwards."""
    monkeypatch.setattr(session, "ANSWER_WITHIN", 2.0)
    monkeypatch.setattr(session.Session.__init__, "__defaults__", (2.0,))
    monkeypatch.setattr(fence, "SETTLE_WITHIN", 1.0)
    server = own_server("cassandra")
    store = await open_store(server.url("k"))
    kept, doubtful = make_timer(shard=3), make_timer(shard=3)
    await insert(store, kept)
    server.pause()
    async with asyncio.timeout(30):
        with pytest.raises(Unanswered):
            await store.insert([Insert(doubtful)])
        for call in (store.get([kept.id]), store.records("node"), store.ping()):
            with pytest.raises(StoreUnavailable):
                await call
    server.resume()

    async def answers():
        try:
            return await store.get([kept.id]) == [kept]
        except StoreUnavailable:
            return False

    await eventually(answers, "the server to go on", within=60)
    other = make_timer()
    await insert(store, other)
    assert (await store.get([kept.id, other.id])) == [kept, other]


@pytest.mark.slow
async def test_a_server_that_is_killed(own_server: OwnServer, open_store):
    """Nothing that was acknowledged is lost, and the store finds the server again by itself."""
    server = own_server("cassandra")
    store = await open_store(server.url("k"))
    written = []
    is_over = asyncio.Event()

    async def write():
        while not is_over.is_set():
            timer = make_timer()
            try:
                await store.insert([Insert(timer)])
            except StoreUnavailable:
                await asyncio.sleep(0.05)
            else:
                written.append(timer)

    writers = [asyncio.create_task(write()) for _ in range(8)]

    async def has_written(count):
        return len(written) >= count

    await eventually(lambda: has_written(50), "timers to be written", within=60)
    await asyncio.to_thread(server.crash)
    await asyncio.to_thread(server.start)
    count = len(written) + 50
    await eventually(lambda: has_written(count), "timers to be written again", within=60)
    is_over.set()
    await asyncio.gather(*writers)
    assert await store.get([timer.id for timer in written]) == written


@pytest.mark.parametrize("is_settled", [True, False])
async def test_whatever_the_driver_throws_is_settled(cassandra, monkeypatch, is_settled):
    """An error that nobody knows may come in the middle, and what was begun may still land."""
    timer = make_timer()
    await insert(cassandra, timer)
    lane = cassandra._rooms.lanes.known(timer.shard)

    async def broken(*_):
        raise AssertionError("the answer makes no sense")

    async def settle(*_):
        return is_settled

    monkeypatch.setattr(lane._session, "run_batch", broken)
    monkeypatch.setattr("duetime.stores.cassandra.lane.settle", settle)
    with pytest.raises(StoreUnavailable) as raised:
        await cassandra.apply([claim_of(timer)])
    assert isinstance(raised.value, Unanswered) is not is_settled


@pytest.mark.parametrize("unsettled", [3, 4])
async def test_of_failures_in_several_shards_the_one_that_nobody_knows_is_told(
    cassandra, monkeypatch, unsettled
):
    """A batch is over only if all of it is, whichever shard failed first."""
    timers = [make_timer(shard=shard) for shard in (3, 4)]
    await insert(cassandra, *timers)

    async def broken(*_):
        raise AssertionError("the answer makes no sense")

    async def settle(_, shard, *__):
        return shard != unsettled

    monkeypatch.setattr(cassandra._rooms.lanes._session, "run_batch", broken)
    monkeypatch.setattr("duetime.stores.cassandra.lane.settle", settle)
    with pytest.raises(Unanswered):
        await cassandra.apply([claim_of(timer) for timer in timers])
