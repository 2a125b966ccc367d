"""The sweep finds timers, and what lies beside them, that were not told when to go."""

from msgspec.structs import replace

from duetime import model
from duetime.stores import Change, Insert
from duetime.stores.dynamodb import items
from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.store import DynamoStore
from duetime.timer import Status
from tests.factories import NOW, claim_of, insert, make_attempt
from tests.stores.dynamodb.conftest import RETENTION, Asked
from tests.stores.dynamodb.made import HEAVY, expiries, finish_of, fired, left, timer_of
from tests.stores.dynamodb.sweeping import MONTH, SOON, dates, swept

WEEK = 7 * 86_400


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


async def test_a_timer_with_a_retention_of_its_own_is_dated_by_it(dynamodb, dropping, dynamodb_url):
    """Also if its content lies beside: the item says for how long it is kept."""
    timer = timer_of(HEAVY)
    timer = replace(timer, spec=replace(timer.spec, retention=5 * RETENTION))
    await insert(dynamodb, timer)
    claim = claim_of(timer)
    dynamodb._changes._expiry.attribute = lambda timer: {}  # as one did that knew of none
    dynamodb._changes._clean_up = _nothing
    done = finish_of(claim.new)
    assert await dynamodb.apply([claim, done]) == [True] * 2
    assert await swept(dropping) == 2
    at = (done.new.updated_at + 5 * RETENTION) // 1000 + 1
    assert await dates(dynamodb_url) == [at, at + WEEK]


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
