"""Searching by reading along in the order of ids."""

import pytest

from duetime.errors import UnsupportedQuery
from duetime.stores import Query
from duetime.stores.walking import Part, place_of, scan_shards, walk
from tests.factories import NOW, make_timer

SHARDS = (1, 2, 3)


def reader(timers, asked=None):
    """Reads from a list, three at a time at most."""

    async def read(shard, place, is_descending, limit):
        own = sorted((t for t in timers if t.shard == shard), key=lambda t: t.id)
        if is_descending:
            own = [t for t in reversed(own) if place is None or t.id < place]
        else:
            own = [t for t in own if place is None or t.id > place]
        if asked is not None:
            asked.append((shard, place))
        part = own[: min(limit, 3)]
        return Part(part, len(part) == len(own))

    return read


def some(count, **overrides):
    return [make_timer(shard=SHARDS[n % 3], created_at=NOW + n, **overrides) for n in range(count)]


@pytest.mark.parametrize("descending", [True, False])
async def test_shards_are_merged_by_id(descending):
    """The timers of all shards come in one order, either way."""
    timers = some(20)
    page = await walk(Query(tenant="default", descending=descending), SHARDS, reader(timers))
    assert page.timers == (timers[::-1] if descending else timers)
    assert page.stopped_at is None


async def test_an_offset_that_is_not_reached_is_refused():
    """The page after it would not know how many are still to be left out."""
    query = Query(tenant="default", offset=6)
    with pytest.raises(UnsupportedQuery, match="offset: so many matches were not found among 5"):
        await walk(query, SHARDS, reader(some(20)), most_seen=5)


@pytest.mark.parametrize("descending", [True, False])
async def test_who_finds_too_little_gives_up_and_can_go_on(descending):
    """A search ends after so many looked at, and the place where it stopped leads on."""
    timers = some(20)
    wanted = [timers[2], timers[17]]
    timers = [t if t in wanted else make_timer(tenant="other", id=t.id) for t in timers]
    seen, after, pages = [], None, 0
    while True:
        query = Query(tenant="default", descending=descending, after=after)
        page = await walk(query, SHARDS, reader(timers), most_seen=5)
        seen += page.timers
        pages += 1
        after = page.stopped_at
        if after is None:
            break
    assert seen == (wanted[::-1] if descending else wanted)
    assert pages == 5


def leaving_out(timers, looked_at):
    """Reads like a reader, but leaves out what is another tenant's and says how far it looked."""
    read_all = reader(timers)

    async def read(shard, place, is_descending, limit):
        part = await read_all(shard, place, is_descending, limit)
        looked_at.extend(part.timers)
        own = [timer for timer in part.timers if timer.tenant == "default"]
        place = part.timers[-1].id if part.timers else None
        return Part(own, part.is_last, len(part.timers) - len(own), place)

    return read


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("own", [(), (2, 17), (0, 39), range(0, 40, 5), range(40)])
async def test_what_a_store_leaves_out_is_counted_as_looked_at(descending, own):
    """A page ends after so many that were looked at, found or not; all are found, once."""
    timers = [
        timer if at in own else make_timer(tenant="other", id=timer.id)
        for at, timer in enumerate(some(40))
    ]
    wanted = [timers[at] for at in own]
    seen, after = [], None
    while True:
        looked_at = []
        query = Query(tenant="default", descending=descending, after=after)
        page = await walk(query, SHARDS, leaving_out(timers, looked_at), most_seen=5)
        assert len(looked_at) <= 5 + 2 * 3 * len(SHARDS)
        seen += page.timers
        if page.stopped_at is None:
            break
        assert after is None or (page.stopped_at > after) != descending
        after = page.stopped_at
    assert seen == (wanted[::-1] if descending else wanted)


@pytest.mark.parametrize("descending", [True, False])
async def test_a_walk_among_what_is_left_out_ends_with_the_times_asked_for(descending):
    """Who has nothing in a short time is told so, and not led on."""
    others = [make_timer(tenant="other", id=timer.id) for timer in some(60)]
    looked_at = []
    times = {"created_after": NOW + 20, "created_before": NOW + 26}
    query = Query(tenant="default", descending=descending, **times)
    page = await walk(query, SHARDS, leaving_out(others, looked_at), most_seen=30)
    assert (page.timers, page.stopped_at) == ([], None)
    assert len(looked_at) < 30


@pytest.mark.parametrize("descending", [True, False])
async def test_times_of_creation_bound_what_is_read(descending):
    """What lies outside the times asked for is not even looked at."""
    timers = some(30)
    query = Query(
        tenant="default", descending=descending, created_after=NOW + 9, created_before=NOW + 12
    )
    page = await walk(query, SHARDS, reader(timers), most_seen=4)
    assert page.timers == (timers[11:8:-1] if descending else timers[9:12])
    assert page.stopped_at is None


@pytest.mark.parametrize("descending", [True, False])
async def test_of_cursor_and_times_the_one_further_on_counts(descending):
    """A page begins behind both of them, wherever the other one lies."""
    timers = some(30)
    times = {"created_after": NOW + 9, "created_before": NOW + 12}
    expected = timers[11:8:-1] if descending else timers[9:12]
    outside = timers[29] if descending else timers[0]
    for last, left in ((outside, expected), (expected[0], expected[1:])):
        after = (last.created_at, last.id)
        query = Query(tenant="default", descending=descending, after=after, **times)
        assert (await walk(query, SHARDS, reader(timers), most_seen=4)).timers == left


async def test_a_part_without_timers_is_not_the_end():
    """As long as it does not say so, what lies behind is read."""
    timers = some(12)
    read, answered = reader(timers), set()

    async def hesitant(shard, place, is_descending, limit):
        if (shard, place) in answered:
            return await read(shard, place, is_descending, limit)
        answered.add((shard, place))
        return Part([], is_last=False)

    page = await walk(Query(tenant="default"), SHARDS, hesitant)
    assert page.timers == timers[::-1]


async def test_a_page_has_no_more_than_its_limit():
    """However many match."""
    timers = some(12)
    page = await walk(Query(tenant="default", limit=5), SHARDS, reader(timers))
    assert page.timers == timers[:6:-1]


async def test_a_page_reads_little_more_than_itself():
    """A short page does not read the shards to their ends."""
    asked: list[tuple[int, str | None]] = []
    await walk(Query(tenant="default", limit=2), SHARDS, reader(some(3_000), asked))
    assert len(asked) <= 4


def test_a_place_lies_between_ids():
    """A place that is no id parts those made before from those made after."""
    early, late = make_timer(created_at=NOW).id, make_timer(created_at=NOW + 1).id
    assert early < place_of((NOW + 1, "")) < late
    assert early < place_of((NOW, "g")) < late
    assert place_of((NOW, early)) == early


def by_shard(timers):
    return sorted(timers, key=lambda timer: (timer.shard, timer.id))


HEAVIEST = 1_000_000


async def test_a_scan_goes_through_the_shards_one_after_the_other():
    """Whatever the shards' order, and wherever it goes on."""
    order = by_shard(some(20))
    read = reader(order[::-1])
    assert await scan_shards(None, 100, [3, 1, 2], read, HEAVIEST) == order
    for place, timer in enumerate(order):
        assert await scan_shards(timer.id, 5, SHARDS, read, HEAVIEST) == order[place + 1 :][:5]
    assert await scan_shards("no id", 100, SHARDS, read, HEAVIEST) == order


async def test_a_scan_ends_when_it_has_enough_weight():
    """With the part that makes it so: none is cut."""
    timers = by_shard(some(20))
    heaviest = sum(timer.weight for timer in timers[:4])
    assert await scan_shards(None, 100, SHARDS, reader(timers), heaviest) == timers[:6]
    assert await scan_shards(None, 100, SHARDS, reader(timers), 1) == timers[:3]


@pytest.mark.parametrize("limit", [1, 100])
async def test_a_scan_does_not_take_what_is_gone_for_the_end(limit):
    """A part may be empty although more lies behind it: an empty answer would be the end."""
    timers, is_gone = by_shard(some(20)), set()
    read_all = reader(timers)

    async def read(shard, place, is_descending, limit):
        if (shard, place) not in is_gone:  # those that were there have gone by the next look
            is_gone.add((shard, place))
            return Part([], is_last=False)
        return await read_all(shard, place, is_descending, limit)

    found, after = [], None
    while part := await scan_shards(after, limit, SHARDS, read, HEAVIEST):
        found += part
        after = part[-1].id
    assert found == timers
