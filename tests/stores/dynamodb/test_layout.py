"""How timers lie in the table: what is asked for them, what it costs, and what is left behind."""

import pytest
from msgspec.structs import replace

from duetime import ids, model
from duetime.stores import Change, Insert, Key, Query
from duetime.stores.dynamodb.address import Address
from duetime.stores.dynamodb.changes import MOST_ATTEMPTS
from duetime.stores.dynamodb.store import DynamoStore
from duetime.timer import Status
from tests.factories import NOW, claim_of, insert, key_of, make_attempt, make_timer
from tests.servers.dynamodb import ask
from tests.stores.dynamodb.made import HEAVY, everything, finish_of, left, timer_of


async def life_of(store, timer, asked):
    """Create and fire a timer; what each step costs."""
    await insert(store, timer_of())  # the shard is known from here on
    units = []
    claim = claim_of(timer)
    for step in (store.insert([Insert(timer)]), store.apply([claim])):
        asked.forget()
        assert await step in ([None], [True])
        units.append(asked.units)
    asked.forget()
    assert await store.apply([finish_of(claim.new)]) == [True]
    return [*units, asked.units]


async def test_what_a_timer_costs(dynamodb, asked):
    """Create 2, claim 3, finish 2: seven write units, as docs/stores.md says."""
    assert await life_of(dynamodb, timer_of(), asked) == [2, 3, 2]


async def test_what_a_timer_with_a_key_costs(dynamodb, asked):
    """One write unit more, for where its id lies.

    DynamoDB charges a read unit too, for the look whether the id is free; this server does not.
    """
    assert await life_of(dynamodb, timer_of(has_key=True), asked) == [3, 3, 2]


async def test_what_a_heavy_timer_costs(dynamodb, asked):
    """Its content is paid for once, and not again by every change."""
    payload = b'"%s"' % (b"x" * 10_000)
    assert await life_of(dynamodb, timer_of(payload), asked) == [10 + 2, 3, 2]


@pytest.mark.promise("tenants-apart")
@pytest.mark.parametrize("has_key", [False, True], ids=["keyless", "keyed"])
@pytest.mark.parametrize("payload", [b"1", b'"%s"' % (b"x" * 10_000)], ids=["light", "heavy"])
async def test_anothers_timer_is_asked_for_like_none(dynamodb, asked, has_key, payload):
    """As many requests, and none for its content, whether or not one knows where it lies."""
    timer, none = timer_of(payload, has_key=has_key), timer_of()
    await insert(dynamodb, timer)
    for knows in (False, True):
        seen = []
        for id_ in (timer.id, none.id):
            if not knows:
                dynamodb._timers._hints.clear()
            asked.forget()
            assert await dynamodb.get([id_], "rival") == [None]
            places = [
                len(each["RequestItems"][dynamodb._calls.table]["Keys"])
                for _, each in asked.requests
            ]
            seen.append((asked.operations, places))
        assert seen == [(["BatchGetItem"] * 2, [1, 1])] * 2
    assert await dynamodb.get([timer.id], timer.tenant) == [timer]


@pytest.mark.promise("tenants-apart")
async def test_an_id_as_the_key_does_not_read_what_anothers_timer_carries(dynamodb, asked):
    """One request for the two places where it may lie, and none for its content."""
    timer = timer_of(HEAVY, tenant="acme")
    await insert(dynamodb, timer)
    asked.forget()
    assert await dynamodb.get_by_key([Key.of(timer)._replace(tenant="rival")]) == [None]
    assert asked.operations == ["BatchGetItem"]
    assert await dynamodb.get_by_key([Key.of(timer)]) == [timer]


@pytest.mark.promise("tenants-apart")
async def test_a_list_reads_nothing_of_others_but_where_they_lie(dynamodb, asked):
    """Timers of others do not leave DynamoDB, those with keys not with what lies beside them."""
    keyless = [timer_of(b'"%s"' % (b"x" * 10_000), tenant="acme") for _ in range(3)]
    keyed = [timer_of(HEAVY, has_key=True, tenant="acme") for _ in range(3)]
    await insert(dynamodb, *keyless)
    asked.forget()
    assert (await dynamodb.search(Query(tenant="rival"))).timers == []
    assert set(asked.operations) == {"Query"}
    [listed] = [each for _, each in asked.requests if "FilterExpression" in each]
    assert (await dynamodb._calls._wire.call("Query", listed, 5))["Items"] == []
    await insert(dynamodb, *keyed)
    asked.forget()
    assert (await dynamodb.search(Query(tenant="rival"))).timers == []
    assert asked.operations.count("BatchGetItem") == 1
    assert len((await dynamodb.search(Query(tenant="acme"))).timers) == 6


async def test_requests_of_the_hot_paths(dynamodb, asked):
    """A poll is one query of the index for each shard in use; reads go by the hundred."""
    timers = [make_timer(shard=shard) for shard in (3, 4, 5) for _ in range(50)]
    await insert(dynamodb, *timers)
    asked.forget()
    assert len(await dynamodb.due(ids.ALL_SHARDS, None, NOW * 2, 500)) == 150
    assert asked.operations == ["Query"] * 4
    assert [arguments.get("IndexName") for _, arguments in asked.requests] == [None, *["due"] * 3]
    asked.forget()
    assert None not in await dynamodb.get([timer.id for timer in timers])
    assert asked.operations == ["BatchGetItem"] * 2  # the index told where they lie
    asked.forget()
    assert await dynamodb.apply([claim_of(timer) for timer in timers]) == [True] * 150
    assert asked.operations == ["UpdateItem"] * 150


async def test_a_poll_reads_little_more_than_its_page(dynamodb, asked):
    """A page of ten does not read the shards to their ends."""
    timers = [make_timer(shard=shard, wake_at=NOW + n) for n in range(200) for shard in (3, 4)]
    await insert(dynamodb, *timers)
    asked.forget()
    assert len(await dynamodb.due(ids.ALL_SHARDS, None, NOW * 2, 10)) == 10
    assert [arguments.get("Limit") for _, arguments in asked.requests] == [None, 10, 10]


async def test_a_taken_key_leaves_nothing_behind(dynamodb, dynamodb_url):
    """Neither where it would have lain nor its content stays."""
    first = timer_of(has_key=True, timer_id="same")
    await insert(dynamodb, first)
    before = await everything(dynamodb_url)
    second = timer_of(b'"%s"' % (b"x" * 9_000), has_key=True, timer_id="same")
    assert await dynamodb.insert([Insert(second)]) == [first]
    assert sorted(map(str, await everything(dynamodb_url))) == sorted(map(str, before))


async def test_an_id_that_leads_nowhere_is_free(dynamodb, dynamodb_url):
    """What a crash left behind between two writes is in nobody's way."""
    for timer in (timer_of(has_key=True), timer_of()):
        lost = {"pk": {"S": "007"}, "sk": {"S": timer.id}, "k": {"S": "knowhere"}}
        await ask(dynamodb_url, "PutItem", Item=lost)
        assert await dynamodb.get([timer.id]) == [None]
        await insert(dynamodb, timer)
        assert await dynamodb.get([timer.id]) == [timer]


async def test_a_key_in_the_form_of_an_id(dynamodb):
    """Who chooses the id of a timer as a key is shown that timer."""
    first = timer_of()
    await insert(dynamodb, first)
    second = timer_of(has_key=True, timer_id=first.id)
    assert await dynamodb.insert([Insert(second)]) == [first]
    elsewhere = timer_of(has_key=True, timer_id=first.id, tenant="other")
    await insert(dynamodb, elsewhere)
    assert await dynamodb.get_by_key([key_of(first), key_of(elsewhere)]) == [first, elsewhere]


@pytest.mark.slow
async def test_the_heaviest(dynamodb, dynamodb_url):
    """A body of 8 MiB, of characters of three bytes, comes back as it was, and is purged whole."""
    payload = ('"' + "€" * (8 * 1024 * 1024 // 3) + '"').encode()
    timer = timer_of(payload, status=Status.COMPLETED, wake_at=None)
    await insert(dynamodb, timer)
    assert await dynamodb.get([timer.id]) == [timer]
    assert await dynamodb.purge(ids.ALL_SHARDS, NOW * 2, 10) == 1
    assert await left(dynamodb_url) == []


async def test_a_content_that_is_replaced_goes(dynamodb, dynamodb_url):
    """From heavy to heavy to light, only the newest content is kept."""
    timer = timer_of(b'"%s"' % (b"x" * 5_000))
    await insert(dynamodb, timer)
    for size, count in ((6_000, 1), (10, 0)):
        spec = timer_of(b'"%s"' % (b"y" * size)).spec
        new = model.update(timer, NOW, spec=spec, execute_at=NOW)
        assert await dynamodb.apply([Change(timer, new)]) == [True]
        assert await dynamodb.get([timer.id]) == [new]
        parts = [item for item in await everything(dynamodb_url) if item["pk"]["S"] == timer.id]
        assert len(parts) == count
        timer = new


async def test_a_long_log_moves_out_of_the_timer(dynamodb, dynamodb_url):
    """The newest attempts lie in the item, the older ones beside it, and all are read in order."""
    timer = timer_of()
    await insert(dynamodb, timer)
    made = []
    for number in range(1, 3 * MOST_ATTEMPTS):
        new = replace(timer, version=timer.version + 1)
        attempt = make_attempt(timer, attempt=number)
        assert await dynamodb.apply([Change(timer, new, attempt)]) == [True]
        made.append(attempt)
        timer = new
    assert await dynamodb.attempts(timer.id, None, 99) == made
    assert await dynamodb.attempts(timer.id, (1, 3), 4) == made[3:7]
    beside = [item for item in await everything(dynamodb_url) if item["pk"]["S"] == timer.id]
    assert len(beside) == 2 * MOST_ATTEMPTS
    stale = Change(timer_of(id=timer.id), new, make_attempt(timer, attempt=99))
    assert await dynamodb.apply([stale]) == [False]
    assert await dynamodb.attempts(timer.id, None, 99) == made


async def test_two_stores_and_the_same_timers(dynamodb, dynamodb_url):
    """Of two nodes that claim the same timers, each timer has one that wins."""
    other = DynamoStore(Address.parse(dynamodb_url))
    await other.migrate()
    timers = [timer_of() for _ in range(30)]
    await insert(dynamodb, *timers)
    claims = [[claim_of(timer, node) for timer in timers] for node in ("a", "b")]
    first, second = dynamodb.apply(claims[0]), other.apply(claims[1])
    won = [await first, await second]
    assert [a != b for a, b in zip(*won, strict=True)] == [True] * 30
    await other.close()


async def test_a_late_clean_up_takes_nothing_from_the_living(dynamodb):
    """A content that is used again is not removed by who replaced it before."""
    heavy, light = timer_of(b'"%s"' % (b"x" * 5_000)), timer_of()
    await insert(dynamodb, heavy)
    second = model.update(heavy, NOW, spec=light.spec, execute_at=NOW)
    third = model.update(second, NOW, spec=replace(heavy.spec), execute_at=NOW)
    assert await dynamodb.apply([Change(heavy, second)]) == [True]
    assert await dynamodb.apply([Change(second, third)]) == [True]
    await dynamodb._changes._clean_up([Change(heavy, second)])
    assert await dynamodb.get([heavy.id]) == [third]
