"""What belongs to no timer is removed: what a crash leaves, and what lost a race."""

from msgspec.structs import replace

from duetime import model
from duetime.stores import Change, Insert
from duetime.stores.dynamodb import beside, inserts, items, leftovers
from duetime.stores.dynamodb.changes import MOST_ATTEMPTS
from tests.factories import NOW, claim_of, insert, make_attempt
from tests.stores.dynamodb.made import HEAVY, left, timer_of
from tests.stores.dynamodb.sweeping import MONTH, SOON, swept


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
    expiry = store._changes._expiry
    lines = [expiry.log_line(timer, line) for line in items.attempts_in(item)]
    await inserts.batches.put(store._calls, lines)
