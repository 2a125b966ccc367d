"""The sweep finds what was not told when to go, and what belongs to no timer."""

import asyncio

import pytest
from msgspec.structs import replace

from duetime import ids, model
from duetime.errors import StoreUnavailable
from duetime.model import Status
from duetime.stores import Change, Insert
from duetime.stores.dynamodb import beside, inserts, items, leftovers, sweep
from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.calls import _LONGEST_PAUSE
from duetime.stores.dynamodb.changes import MOST_ATTEMPTS
from duetime.stores.dynamodb.store import SWEEP_WITHIN, DynamoStore
from duetime.stores.dynamodb.table import definition
from duetime.testing import FakeClock
from tests.factories import NOW, claim_of, insert, make_attempt
from tests.servers.dynamodb import ask
from tests.stores.dynamodb.conftest import RETENTION, Asked
from tests.stores.dynamodb.test_expiry import HEAVY, expiries, fired
from tests.stores.dynamodb.test_layout import left, timer_of

SOON = NOW + 60_000
MONTH = sweep.EVERY
WEEK = 7 * 86_400


async def swept(store, now=SOON, limit=1_000):
    """One step of the sweep, as the janitor asks for it."""
    return await store.purge(ids.ALL_SHARDS, now - RETENTION, limit)


async def dates(url):
    """When what is left is dropped, in order."""
    return sorted(int(item.get("x", {}).get("N", 0)) for item in await left(url))


async def test_a_timer_that_finished_without_a_retention_is_dated(dynamodb, dropping, dynamodb_url):
    """With all that lies beside it, as if there had been one; and once is enough."""
    timer = timer_of(HEAVY, has_key=True)
    await insert(dynamodb, timer)
    done = await fired(dynamodb, timer)
    assert await dates(dynamodb_url) == [0, 0, 0]
    assert await swept(dropping) == 3
    at = (done.updated_at + RETENTION) // 1000 + 1
    assert await dates(dynamodb_url) == [at, at + WEEK, at + WEEK]
    assert await dropping.get([timer.id]) == [done]
    assert await swept(dropping, SOON + MONTH) == 0


async def test_a_date_is_never_long_past(dynamodb, dropping, dynamodb_url):
    """DynamoDB would take one of more than five years ago for a mistake."""
    await insert(dynamodb, timer_of(status=Status.FAILED, wake_at=None))
    now = NOW + 10 * 365 * 86_400_000
    assert await swept(dropping, now) == 1
    assert await dates(dynamodb_url) == [now // 1000 + 1]


async def test_a_living_timer_is_left_alone(dynamodb, dropping, dynamodb_url):
    """Neither it nor what it needs is dated or removed, however old it is."""
    late = timer_of(created_at=0xA000_0000_0000)  # its id begins as the place of a log's line does
    living = timer_of(HEAVY, has_key=True), timer_of(HEAVY), timer_of(), late
    await insert(dynamodb, *living)
    assert await swept(dropping, NOW + 10 * MONTH) == 0
    assert await dates(dynamodb_url) == [0] * 7
    assert await dropping.get([timer.id for timer in living]) == list(living)


async def test_the_log_of_a_living_timer_is_dated(dynamodb, dropping, dynamodb_url):
    """Those of its lines that lie beside it, without a date."""
    timer = timer_of()
    log = tuple(make_attempt(timer, attempt=number) for number in range(1, 3))
    await dynamodb.insert([Insert(timer, attempts=log)])
    assert await swept(dropping) == 2
    at = max(log[0].finished_at + RETENTION, SOON) // 1000 + 1
    assert await dates(dynamodb_url) == [0, at, at]


async def test_who_comes_back_to_life_beside_the_sweep_stays(dynamodb, dropping, dynamodb_url):
    """Whatever of it the sweep has seen before."""
    timer = timer_of(HEAVY, has_key=True)
    await insert(dynamodb, timer)
    done = await fired(dynamodb, timer)
    seen = await left(dynamodb_url)
    owners = await dropping._sweep._leftovers.owners(seen)
    again = model.replace(done, NOW, spec=done.spec, execute_at=NOW, fingerprint=None)
    assert await dynamodb.apply([Change(done, again)]) == [True]
    assert await dropping._sweep._leftovers.tidy(seen, owners, SOON) == 0
    assert await expiries(dynamodb_url) == [None] * 3
    assert await dropping.get([timer.id]) == [again]


async def crashed_at_the_end(url, timer):
    """Finish a timer under a longer retention, without a word to what lies beside it."""
    store = DynamoStore(Address.parse(url), 100 * RETENTION)
    store._changes._clean_up = _nothing
    await store.migrate()
    await insert(store, timer)
    done = await fired(store, timer)
    await store.close()
    return done


async def test_what_was_not_dated_at_the_end_of_a_timer_is(dynamodb, dynamodb_url, dropping):
    """A crash after the write that ended it: what lies beside goes a week after the timer.

    Also if the retention is shorter by now: no content goes before its timer.
    """
    assert dynamodb  # so that the table is to be swept
    done = await crashed_at_the_end(dynamodb_url, timer_of(HEAVY, has_key=True))
    at = (done.updated_at + 100 * RETENTION) // 1000 + 1
    assert await dates(dynamodb_url) == [0, 0, at]
    assert await swept(dropping) == 2
    assert await dates(dynamodb_url) == [at, at + WEEK, at + WEEK]


async def _nothing(*_):
    pass


async def test_what_a_timer_needs_again_is_not_dated(dynamodb, dynamodb_url, dropping):
    """It came back to life after the sweep had seen it at its end, with its date."""
    timer = timer_of(HEAVY, has_key=True)
    done = await crashed_at_the_end(dynamodb_url, timer)
    seen = [item for item in await left(dynamodb_url) if not items.is_timer(item)]
    owners = await dropping._sweep._leftovers.owners(seen)
    again = model.replace(done, NOW, spec=done.spec, execute_at=NOW, fingerprint=None)
    assert await dynamodb.apply([Change(done, again)]) == [True]
    assert await dropping._sweep._leftovers.tidy(seen, owners, SOON) == 0
    assert await dates(dynamodb_url) == [0, 0, 0]


async def test_a_timer_is_dated_before_what_it_needs(dynamodb, dropping, dynamodb_url):
    """However long the sweep takes from the one to the other."""
    timer = timer_of(HEAVY, has_key=True)
    await insert(dynamodb, timer)
    await fired(dynamodb, timer)
    for days in range(0, 10 * 30, 30):
        await swept(dropping, SOON + days * 86_400_000, limit=1)
        found = await left(dynamodb_url)
        [ended] = [int(one.get("x", {}).get("N", 0)) for one in found if items.is_timer(one)]
        others = [int(one["x"]["N"]) for one in found if "x" in one and not items.is_timer(one)]
        assert not others or 0 < ended <= min(others) - WEEK
    assert 0 not in await dates(dynamodb_url)


async def test_each_item_is_written_once(dynamodb, dropping, dynamodb_url):
    """Also a refused write is paid for. What has a date is not even looked at."""
    timer = timer_of(HEAVY, has_key=True, status=Status.FAILED, wake_at=None)
    log = tuple(make_attempt(timer, attempt=number) for number in range(1, 9))
    await dynamodb.insert([Insert(timer, attempts=log)])
    asked = Asked(dropping)
    assert await swept(dropping) == len(await left(dynamodb_url)) == 3 + 8
    assert asked.operations.count("UpdateItem") == 3 + 8
    asked.forget()
    assert await swept(dropping, SOON + MONTH) == 0
    assert asked.operations == ["Scan"]


# What belongs to no timer ----------------------------------------------------------------------


async def test_what_a_crash_before_the_timer_leaves_is_removed(dynamodb, dropping, dynamodb_url):
    """Where its id would have led, its content and its log; but not while it may still come."""
    lost = timer_of(HEAVY, has_key=True), timer_of(HEAVY)
    brought = [Insert(timer, attempts=(make_attempt(timer),)) for timer in lost]
    await dynamodb._inserts._shards.add([7])
    await dynamodb._inserts._point(brought)
    await dynamodb._inserts._prepare(brought)
    assert len(await left(dynamodb_url)) == 5
    assert await swept(dropping, NOW + leftovers.OLD) == 2  # the lines of the log have been dated
    assert len(await left(dynamodb_url)) == 5
    assert await swept(dropping, NOW + leftovers.OLD + MONTH) == 3
    assert [item["sk"]["S"][0] for item in await left(dynamodb_url)] == ["a", "a"]


async def test_what_a_crash_after_the_end_leaves_is_removed(dynamodb, dropping, dynamodb_url):
    """A timer that was dropped leaves nothing, also if what lay beside it was not dated."""
    timer = timer_of(HEAVY, has_key=True)
    await insert(dynamodb, timer)
    [item] = [item for item in await left(dynamodb_url) if items.is_timer(item)]
    await dynamodb._calls.ask("DeleteItem", Key={"pk": item["pk"], "sk": item["sk"]})
    assert await swept(dropping, NOW + leftovers.OLD + 1) == 2
    assert await left(dynamodb_url) == []


async def test_a_content_that_no_version_has_is_removed(dynamodb, dropping, dynamodb_url):
    """That of a change of which nobody knows what became; not one that may still be written."""
    timer = timer_of(HEAVY)
    await insert(dynamodb, timer)
    spec = timer_of(HEAVY.replace(b"x", b"y")).spec
    lost = model.update(timer, NOW, spec=spec, execute_at=NOW)
    await beside.keep(dynamodb._calls, beside.parts(lost), 4)
    assert await swept(dropping) == 0
    claim = claim_of(timer)
    assert await dynamodb.apply([claim]) == [True]
    assert await swept(dropping, SOON + MONTH) == 1
    assert len(await left(dynamodb_url)) == 2
    assert await dropping.get([timer.id]) == [claim.new]


async def test_a_content_that_is_used_again_stays(dynamodb, dropping, dynamodb_url):
    """Also if the sweep saw it before, when it was nobody's."""
    light, heavy = timer_of(), timer_of(HEAVY)
    await insert(dynamodb, light)
    lost = model.update(light, NOW, spec=heavy.spec, execute_at=NOW)
    await beside.keep(dynamodb._calls, beside.parts(lost), 4)
    seen = [item for item in await left(dynamodb_url) if item["pk"]["S"] == light.id]
    claimed = replace(light, version=2)
    third = replace(claimed, version=3, spec=heavy.spec)
    assert await dynamodb.apply([Change(light, claimed)]) == [True]
    owners = await dropping._sweep._leftovers.owners(seen)
    assert leftovers.is_lost_part(seen[0], owners[light.id])
    assert await dynamodb.apply([Change(claimed, third)]) == [True]
    assert await dropping._sweep._leftovers.tidy(seen, owners, SOON) == 0
    assert await dropping.get([light.id]) == [third]


# Races that are lost ---------------------------------------------------------------------------


async def test_a_lost_insert_leaves_no_log(dynamodb, dynamodb_url):
    """Neither under its own id, nor under that of the timer which has its key."""
    first = timer_of(has_key=True, timer_id="same")
    await insert(dynamodb, first)
    second = timer_of(HEAVY, has_key=True, timer_id="same")
    lost = Insert(second, attempts=(make_attempt(second),))
    assert await dynamodb.insert([lost]) == [first]
    assert len(await left(dynamodb_url)) == 2


async def test_an_insert_adds_nothing_to_the_log_of_who_is_there(dynamodb):
    """One that has its id was there before, and stays as it is."""
    timer = timer_of()
    await dynamodb.insert([Insert(timer, attempts=(make_attempt(timer),))])
    other = replace(timer, version=9)
    log = tuple(make_attempt(timer, attempt=number, node="other") for number in (1, 2))
    assert await dynamodb.insert([Insert(other, attempts=log)]) == [timer]
    assert await dynamodb.attempts(timer.id, None, 9) == [make_attempt(timer)]


async def test_a_lost_change_leaves_no_content(dynamodb, dynamodb_url):
    """An update that meets a claim was written nowhere, and nor was its content."""
    timer = timer_of(HEAVY)
    await insert(dynamodb, timer)
    before = len(await left(dynamodb_url))
    spec = timer_of(HEAVY.replace(b"x", b"y")).spec
    update = Change(timer, model.update(timer, NOW, spec=spec, execute_at=NOW))
    assert await dynamodb.apply([claim_of(timer)]) == [True]
    assert await dynamodb.apply([update]) == [False]
    assert len(await left(dynamodb_url)) == before


async def test_a_lost_change_leaves_the_same_content_to_who_won(dynamodb):
    """Two updates to one and the same content: the loser takes nothing away."""
    timer = timer_of()
    await insert(dynamodb, timer)
    new = model.update(timer, NOW, spec=timer_of(HEAVY).spec, execute_at=NOW)
    rival = replace(new, spec=replace(new.spec))
    assert await dynamodb.apply([Change(timer, new), Change(timer, rival)]) == [True, False]
    assert await dynamodb.get([timer.id]) == [new]


async def test_a_change_that_lost_moves_no_line_of_the_log_twice(dynamodb, dynamodb_url):
    """Lines that moved out of the item for a change that lost are the ones that move anyway."""
    timer = timer_of()
    await insert(dynamodb, timer)
    for number in range(1, MOST_ATTEMPTS + 1):
        new = replace(timer, version=timer.version + 1)
        line = make_attempt(timer, attempt=number)
        assert await dynamodb.apply([Change(timer, new, line)]) == [True]
        timer = new
    before = await dynamodb.attempts(timer.id, None, 99)
    await _crash_while_moving(dynamodb, timer)
    assert await dynamodb.attempts(timer.id, None, 99) == before
    new = replace(timer, version=timer.version + 1)
    last = make_attempt(timer, attempt=MOST_ATTEMPTS + 1)
    assert await dynamodb.apply([Change(timer, new, last)]) == [True]
    assert await dynamodb.attempts(timer.id, None, 99) == [*before, last]
    assert len(await left(dynamodb_url)) == 1 + MOST_ATTEMPTS


async def _crash_while_moving(store, timer):
    [item] = (await store._timers.items({timer.id: inserts.keys.of_timer(timer)})).values()
    lines = map(store._changes._expiry.log_line, items.attempts_in(item))
    await inserts.batches.put(store._calls, lines)


# How it goes -----------------------------------------------------------------------------------


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
