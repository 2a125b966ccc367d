"""What is due is read from where something is left: what is dead before it is passed by."""

import pytest

from duetime import ids
from duetime.stores import Change, Due, Insert, Waking
from duetime.stores.cassandra import fence, floors
from duetime.stores.cassandra.pieces import Ground, Shelving
from duetime.stores.cassandra.rows import BEGINNING, DUE, LATE
from duetime.timer import Status
from tests.factories import NOW, claimed, completed, insert, make_event, make_timer
from tests.stores.cassandra.made import SHARD, at, fire
from tests.waiting import eventually

LATER = NOW + 300_000


async def raised(store, until):
    """Poll until reads begin there."""

    async def is_raised():
        await store.due([SHARD], None, LATER, 10)
        head = (await store._rooms.reads._shards.read())[SHARD]
        return head is not None and head.wake_at >= until

    await eventually(is_raised, "the head to be raised")


def test_where_a_line_is_put():
    """Below the floor, a line is late; where it may be is cleared in both places."""
    ground = Ground(1, epoch=1, floor=Due(50, "b"), head=Due(30, ""))
    places = [Due(29, "x"), Due(50, "a"), Due(50, "c")]
    assert [ground.kind_of(place) for place in places] == [LATE, LATE, DUE]
    assert [ground.kinds_of(place) for place in places] == [(LATE,), (DUE, LATE), (DUE,)]
    assert Ground(1).kind_of(Due(-5, "")) == DUE
    assert Ground(1).kinds_of(Due(-5, "")) == (DUE,)


async def test_a_late_timer_is_found(cassandra, open_store, cassandra_url):
    """What is put down for a time long past is due too, for every store, and is gone when fired."""
    other = await open_store(cassandra_url)
    old = [at(NOW + place) for place in range(5)]
    pending = at(NOW + 200_000)
    await insert(cassandra, *old, pending)
    await insert(other, at(NOW + 250_000))  # it knows the shard from before the floor was raised
    await fire(cassandra, old, NOW + 100_000)
    await raised(cassandra, NOW + 50_000)
    late, later = at(NOW + 1), at(NOW + 2)
    await insert(cassandra, late)
    await insert(other, later)
    for store in (cassandra, other):
        assert await store.due([SHARD], None, NOW + 200_000, 10) == [
            Waking.of(timer) for timer in (late, later, pending)
        ]
        assert await store.due([SHARD], Waking.of(late).place, NOW + 200_000, 1) == [
            Waking.of(later)
        ]
    await fire(other, [late, later, pending], NOW + 210_000)
    assert await cassandra.due([SHARD], None, NOW + 200_000, 10) == []
    assert await other.due([SHARD], None, NOW + 200_000, 10) == []


async def test_what_is_left_holds_the_head_back(cassandra):
    """Nothing that is still due is passed by, however old it is."""
    old, new = at(NOW), [at(NOW + 10_000 + place) for place in range(3)]
    await insert(cassandra, old, *new)
    await fire(cassandra, new, NOW + 200_000)
    for _ in range(5):
        assert await cassandra.due([SHARD], None, LATER, 10) == [Waking.of(old)]
    moved = claimed(old)
    assert await cassandra.apply([Change(old, moved)]) == [True]
    assert await cassandra.due([SHARD], None, LATER, 10) == [Waking.of(moved)]


async def test_a_line_between_floor_and_head_is_moved(cassandra, monkeypatch):
    """What was put down before the floor rose above it is found, changed and removed."""
    monkeypatch.setattr(floors, "MARGIN", 0)
    timer, other = at(NOW + 1_000), at(NOW + 1_001)
    await insert(cassandra, timer, other)
    lane = cassandra._rooms.lanes.known(SHARD)
    lane.raise_floor(Due(NOW + 100_000, ""))
    await lane.idle()
    assert lane.ground.floor == Due(NOW + 100_000, "")
    assert await cassandra.due([SHARD], None, LATER, 10) == [
        Waking.of(timer),
        Waking.of(other),
    ]
    change = Change(timer, completed(timer))
    assert await cassandra.apply([Change(timer, claimed(timer))]) == [True]
    assert await cassandra.apply([Change(claimed(timer), change.new)]) == [True]
    assert await cassandra.due([SHARD], None, LATER, 10) == [Waking.of(other)]


async def test_shards_at_rest_are_asked_together(cassandra, statements_of):
    """Whenever each was last written to, they begin at the same place: a poll is three requests."""
    shards = range(4)
    for n in shards:
        timer = make_timer(shard=n, execute_at=NOW + 1_000 * n)
        await insert(cassandra, timer)
        await fire(cassandra, [timer], NOW + 100_000 + 1_000 * n)
        await cassandra.due(shards, None, LATER, 10)
    rooms = cassandra._rooms

    async def are_even():
        await cassandra.due(shards, None, LATER, 10)
        heads = {rooms.reads._shards.head(shard) for shard in shards}
        return len(heads) == 1 and heads.isdisjoint({None, BEGINNING})

    await eventually(are_even, "the heads to be raised")
    asked = statements_of(cassandra)
    await cassandra.due(shards, None, LATER, 10)
    assert len(asked) == 3  # the list of shards, what is due, and what is late
    await cassandra.due(shards, Due(LATER, ""), LATER + 1_000, 10)
    assert len(asked) == 5  # the list is known


@pytest.mark.slow
async def test_many_at_one_instant(cassandra, monkeypatch):
    """Among thousands that are due at the same time, what is fired is passed by as well."""
    timers = sorted((at(NOW) for _ in range(2_500)), key=lambda timer: timer.id)
    await insert(cassandra, *timers)
    await fire(cassandra, timers[:2_300], NOW + 100_000)
    await raised(cassandra, NOW)
    left = [Waking.of(timer) for timer in timers[2_300:]]
    head = (await cassandra._rooms.reads._shards.read())[SHARD]
    assert timers[2_299].id[:-1] <= head.id < timers[2_300].id
    assert await cassandra.due([SHARD], None, LATER, 1_000) == left
    late = at(NOW - 1)
    await insert(cassandra, late)
    assert await cassandra.due([SHARD], None, LATER, 1_000) == [Waking.of(late), *left]


@pytest.mark.slow
async def test_dead_lines_are_not_read(cassandra, somebody):
    """After thousands were fired, a read of what is due meets hardly a tombstone."""
    timers = [at(NOW + place) for place in range(3_000)]
    await insert(cassandra, *timers)
    await fire(cassandra, timers, NOW + 100_000)
    await raised(cassandra, NOW + 50_000)
    head = (await cassandra._rooms.reads._shards.read())[SHARD]
    assert dead_lines(somebody, head.wake_at) < 10
    assert dead_lines(somebody, 0) >= 3_000
    assert await cassandra.due(ids.ALL_SHARDS, None, LATER, 10) == []


def dead_lines(session, begin):
    """How many tombstones a poll from there on meets, by what the server traces of it."""
    result = session.execute(
        "SELECT at FROM timers WHERE shard = %s AND kind = 2 AND at >= %s AND at <= %s",
        (SHARD, begin, NOW + 100_000),
        trace=True,
    )
    list(result)
    events = [event.description for event in result.get_query_trace().events]
    [read] = [event for event in events if "tombstone cells" in event]
    return int(read.split(" and ")[1].split()[0])


@pytest.mark.slow
async def test_more_dead_lines_than_a_read_may_meet(own_server, open_store):
    """A shard in which much was fired is read and written as before, also by who comes anew."""
    server = own_server("cassandra", settings={"tombstone_failure_threshold": "1500"})
    store = await open_store(server.url("k"))
    for now in range(NOW, NOW + 10 * 60_000, 60_000):
        timers = [at(now + place) for place in range(200)]
        await insert(store, *timers)
        await fire(store, timers, now + 50_000)
        assert await store.due([SHARD], None, now + 50_000, 10) == []
    lane = store._rooms.lanes.known(SHARD)
    assert await fence.settle(lane._session, SHARD, lane.ground.epoch)
    other = await open_store(server.url("k"))
    timer = at(NOW + 700_000)
    event = make_event(timer)
    assert await other.insert([Insert(timer, (event,))]) == [None]
    await other.published([event.id])
    assert await other.events([SHARD], None, 9) == []
    assert await other.due([SHARD], None, NOW + 700_000, 10) == [Waking.of(timer)]


async def test_only_lines_of_what_is_due_make_the_floor_rise(cassandra):
    """Events that were told and timers that were purged leave nothing dead in its way."""
    ended = make_timer(shard=SHARD, status=Status.COMPLETED, wake_at=None)
    timer = at(NOW + 1_000)
    events = [make_event(timer) for _ in range(3)]
    await cassandra.insert([Insert(timer, tuple(events)), Insert(ended)])
    await cassandra.published([event.id for event in events])
    assert await cassandra.purge([SHARD], NOW + 1, 10) == 1
    lane = cassandra._rooms.lanes.known(SHARD)
    assert lane.removed == 0
    await fire(cassandra, [timer], NOW + 1_000)
    assert lane.removed == 2  # its own, and that of its claim


async def test_what_cannot_be_fired_does_not_hold_the_floor_back_for_ever(
    cassandra, open_store, cassandra_url, monkeypatch
):
    """It is put among the late ones, still found by everybody, and reads begin behind it."""
    monkeypatch.setattr(floors, "HELD_BACK", 40)
    stuck = [at(NOW + place) for place in range(3)]
    others = [at(NOW + 50_000 + place) for place in range(40)]
    await insert(cassandra, *stuck, *others)
    other = await open_store(cassandra_url)
    await fire(cassandra, others[:10], NOW + 100_000)
    lane = cassandra._rooms.lanes.known(SHARD)
    for _ in range(3):
        await cassandra.due([SHARD], None, LATER, 10)
        await lane.idle()
    assert lane.ground.floor is None or lane.ground.floor <= Due(NOW, stuck[0].id)
    await fire(cassandra, others[10:], NOW + 100_000)
    left = [Waking.of(timer) for timer in stuck]

    async def is_raised():
        assert await cassandra.due([SHARD], None, LATER, 10) == left
        assert await other.due([SHARD], None, LATER, 10) == left
        await lane.idle()
        return cassandra._rooms.reads._shards.head(SHARD) >= Due(NOW + 60_000, "")

    await eventually(is_raised, "the head to be raised")
    assert await other.due([SHARD], left[0].place, LATER, 1) == left[1:2]
    await fire(other, stuck[:2], NOW + 100_000)
    await fire(cassandra, stuck[2:], NOW + 100_000)
    for store in (cassandra, other):
        assert await store.due([SHARD], None, LATER, 10) == []


async def test_a_line_whose_timer_has_moved_on_is_not_put_among_the_late_ones(cassandra):
    """Who moves it loses to who changed the timer, and nothing is due twice."""
    timer, stays = at(NOW), at(NOW + 1)
    await insert(cassandra, timer, stays)
    lane = cassandra._rooms.lanes.known(SHARD)
    lane.raise_floor(Due(NOW + 100_000, ""))
    await lane.idle()
    new = claimed(timer)
    assert await cassandra.apply([Change(timer, new)]) == [True]
    shelvings = [Shelving(Waking.of(each)) for each in (timer, stays)]
    assert await lane.write(shelvings) == [False, True]
    assert await cassandra.due([SHARD], None, LATER, 10) == [Waking.of(stays), Waking.of(new)]
    assert await cassandra.get([timer.id, stays.id]) == [new, stays]
