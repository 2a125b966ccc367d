"""How far a step of the sweep goes, and which tables are swept when."""

import asyncio

import pytest

from duetime import ids
from duetime.errors import StoreUnavailable
from duetime.stores import Insert
from duetime.stores.dynamodb import sweep
from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.calls import _LONGEST_PAUSE
from duetime.stores.dynamodb.store import SWEEP_WITHIN, DynamoStore
from duetime.stores.dynamodb.table import definition
from duetime.testing import FakeClock
from duetime.timer import Status
from tests.factories import NOW, insert, make_attempt
from tests.servers.dynamodb import ask
from tests.stores.dynamodb.conftest import RETENTION, Asked
from tests.stores.dynamodb.made import HEAVY, left, timer_of
from tests.stores.dynamodb.sweeping import MONTH, SOON, dates, swept


async def test_it_goes_on_where_it_was(dynamodb, dropping, dynamodb_url):
    """A step is bounded, in what it does and in what it reads; another node goes on."""
    await insert(dynamodb, *(timer_of(status=Status.FAILED, wake_at=None) for _ in range(20)))
    other = DynamoStore(Address.parse(dynamodb_url), RETENTION)
    await other.migrate()
    done = [await swept(store, limit=3) for _ in range(8) for store in (dropping, other)]
    assert sum(done) >= 20 - 2 * 3
    assert max(done) <= 3
    assert 0 not in await dates(dynamodb_url)
    await other.close()


def writes_take(store, seconds):
    """The sweep's clock goes on by so much with each of its writes."""
    clock = store._sweep._clock = FakeClock()
    write = store._sweep._calls.write

    async def slow(operation, **arguments):
        clock.advance(seconds * 1000)
        return await write(operation, **arguments)

    store._sweep._calls.write = slow
    return clock


async def test_a_step_ends_when_its_time_is_over(dynamodb, dropping, dynamodb_url):
    """And the next one goes on behind the last item that was dealt with."""
    ended = [timer_of(status=Status.FAILED, wake_at=None) for _ in range(10)]
    await insert(dynamodb, *ended)
    order = [item["sk"]["S"] for item in await left(dynamodb_url)]
    writes_take(dropping, 1)
    asked = Asked(dropping)
    assert [await swept(dropping) for _ in range(4)] == [4, 4, 2, 0]
    scans = [arguments for operation, arguments in asked.requests if operation == "Scan"]
    starts = [scan.get("ExclusiveStartKey", {}).get("sk", {}).get("S") for scan in scans]
    assert starts == [None, order[3], order[7]]


async def test_a_long_log_takes_many_steps(dynamodb, dropping, dynamodb_url):
    """No timer holds up a step, however much is beside it."""
    timer = timer_of(HEAVY, has_key=True, status=Status.FAILED, wake_at=None)
    log = tuple(make_attempt(timer, attempt=number) for number in range(1, 21))
    await dynamodb.insert([Insert(timer, attempts=log)])
    writes_take(dropping, 1)
    assert max([await swept(dropping) for _ in range(7)]) <= sweep.WIDTH
    assert 0 not in await dates(dynamodb_url)


async def test_it_leaves_the_connections_to_others(dynamodb, dropping):
    """A few requests at once, of many that there might be."""
    await insert(dynamodb, *(timer_of(status=Status.FAILED, wake_at=None) for _ in range(30)))
    wire = dropping._calls._wire
    call, under_way, most = wire.call, 0, 0

    async def counted(*arguments):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await call(*arguments)
        finally:
            under_way -= 1

    wire.call = counted
    assert await swept(dropping) == 30
    assert most == sweep.WIDTH < wire._size


async def test_who_is_throttled_goes_on_later(dynamodb, dropping):
    """A write that fails after the step's time is no failure: what was done before is noted."""
    await insert(dynamodb, *(timer_of(status=Status.FAILED, wake_at=None) for _ in range(10)))
    clock = writes_take(dropping, 0)
    calls = dropping._sweep._calls
    write, count = calls.write, 0

    async def throttled(operation, **arguments):
        nonlocal count
        count += 1
        if count > 4:
            clock.advance(5_000)
            raise StoreUnavailable("throttled")
        return await write(operation, **arguments)

    calls.write = throttled
    asked = Asked(dropping)
    assert await swept(dropping) == 4
    calls.write = write
    assert await swept(dropping) == 6
    assert "ExclusiveStartKey" in dict(asked.requests)["Scan"]


def test_who_is_throttled_fails_after_the_time_of_a_step():
    """Patience ends a pause early at worst; if it ended within the step, it would be a failure."""
    assert SWEEP_WITHIN - _LONGEST_PAUSE > sweep.STEP_WITHIN


async def test_what_fails_at_once_is_told(dynamodb, dropping):
    """The sweep is done by a loop that says what went wrong."""
    await insert(dynamodb, timer_of(status=Status.FAILED, wake_at=None))
    dropping._sweep._clock = FakeClock()

    async def refused(*_, **__):
        raise StoreUnavailable("these credentials may not do that")

    write, dropping._sweep._calls.write = dropping._sweep._calls.write, refused
    with pytest.raises(StoreUnavailable, match="may not"):
        await swept(dropping)
    dropping._sweep._calls.write = write
    assert await swept(dropping) == 1


async def opened_without_a_retention(url):
    """Somebody opens the table whose writes are not told when to go."""
    store = DynamoStore(Address.parse(url))
    await store.migrate()
    await store.close()


async def test_it_is_done_once_a_month(dynamodb, dropping, dynamodb_url):
    """Unless somebody without a retention has had the table open since."""
    assert await swept(dropping) == 0
    await insert(dynamodb, timer_of(status=Status.FAILED, wake_at=None))
    assert await swept(dropping, SOON + MONTH - 1) == 0
    assert await swept(dropping, SOON + MONTH) == 1
    await insert(dynamodb, timer_of(status=Status.FAILED, wake_at=None))
    assert await swept(dropping, SOON + MONTH) == 0
    await opened_without_a_retention(dynamodb_url)
    assert await swept(dropping, SOON + MONTH) == 1


async def test_who_only_reads_changes_nothing(dynamodb, dropping, dynamodb_url):
    """The house that is copied from has no retention either, and is not swept for it."""
    assert await swept(dropping) == 0
    reader = DynamoStore(Address.parse(dynamodb_url), must_exist=True)
    await reader.migrate()
    await reader.close()
    await insert(dynamodb, timer_of(status=Status.FAILED, wake_at=None))
    assert await swept(dropping) == 0


async def test_one_node_sweeps(dynamodb, dropping):
    """The one that looks after the first shard."""
    await insert(dynamodb, timer_of(status=Status.FAILED, wake_at=None))
    assert await dropping.purge(range(1, ids.SHARDS), NOW, 9) == 0
    assert await dropping.purge([0], NOW, 9) == 1


# When a table needs none -----------------------------------------------------------------------


async def is_swept(store, now=SOON):
    """Whether a step reads anything of the table."""
    asked = Asked(store)
    await swept(store, now)
    return "Scan" in asked.operations


async def test_a_table_that_was_just_made_is_not_swept(dropping):
    """For a month from the first step on: all that is written has been told when to go."""
    assert not await is_swept(dropping)
    assert not await is_swept(dropping, SOON + MONTH - 1)
    assert await is_swept(dropping, SOON + MONTH)


async def test_many_make_a_table_that_is_not_swept(dynamodb_url):
    """One of those that start at once has made it, and says so."""
    stores = [DynamoStore(Address.parse(dynamodb_url), RETENTION) for _ in range(5)]
    await asyncio.gather(*(store.migrate() for store in stores))
    assert [await is_swept(store) for store in stores] == [False] * 5
    for store in stores:
        await store.close()


@pytest.mark.parametrize("must_exist", [False, True])
async def test_a_table_that_was_there_is_swept(dynamodb_url, must_exist):
    """Who made it may have died before a word, or it was made by hand: nobody knows its past."""
    await ask(dynamodb_url, "CreateTable", **definition(Address.parse(dynamodb_url).table, None))
    store = DynamoStore(Address.parse(dynamodb_url), RETENTION, must_exist=must_exist)
    await store.migrate()
    assert await is_swept(store)
    await store.close()


async def test_a_table_whose_maker_was_not_heard_is_swept(dynamodb_url):
    """That it is not needed could not be noted, and is no reason not to start."""
    store = DynamoStore(Address.parse(dynamodb_url), RETENTION)
    write = store._quick.write

    async def lost(*_, **__):
        raise StoreUnavailable("no answer")

    store._quick.write = lost
    await store.migrate()
    store._quick.write = write
    assert await is_swept(store)
    await store.close()


async def test_who_writes_without_dates_wins_over_who_made_the_table(
    dynamodb, dropping, dynamodb_url
):
    """Whichever of them is first to speak."""
    await dropping._sweep.is_not_needed()
    assert await is_swept(dropping)
    await opened_without_a_retention(dynamodb_url)
    await dropping._sweep.is_not_needed()
    assert await is_swept(dropping)


async def test_somebody_without_a_retention_opens_a_new_table(dropping, dynamodb_url):
    """Before the first step, as a copy into it does, or after it."""
    for _ in range(2):
        await opened_without_a_retention(dynamodb_url)
        assert await is_swept(dropping)
        assert not await is_swept(dropping)


@pytest.mark.parametrize("steps", [0, 1, 2])
async def test_who_writes_without_dates_is_heard_during_a_step(
    dynamodb, dropping, dynamodb_url, steps
):
    """The step that was under way does not say how far it has come: it begins anew."""
    await insert(dynamodb, *(timer_of(status=Status.FAILED, wake_at=None) for _ in range(9)))
    records = await dropping.records(sweep.KIND)
    assert await dropping.put_record(records[0], None)  # as in a table that nobody has spoken of
    for _ in range(steps):
        await swept(dropping, limit=3)
    page = dropping._sweep._page

    async def interrupted(*arguments):
        found = await page(*arguments)
        await opened_without_a_retention(dynamodb_url)
        return found

    dropping._sweep._page = interrupted
    await swept(dropping, limit=3)
    dropping._sweep._page = page
    asked = Asked(dropping)
    await swept(dropping, limit=3)
    assert "ExclusiveStartKey" not in dict(asked.requests)["Scan"]
