"""Everything of one store, copied into another."""

import pytest
from msgspec import Raw
from msgspec.structs import replace

from duetime.errors import ConfigurationError, InUse, StoreError, StoreUnavailable
from duetime.moving import contents, copying
from duetime.stores import Insert, Record
from duetime.testing import FlakyStore
from duetime.timer import HttpCallback
from tests.factories import insert, make_event, make_spec, make_timer
from tests.moving.houses import (
    INHABITANTS,
    LAYOUT,
    Breaking,
    Listening,
    copied,
    furnished,
    holdings,
    inhabited,
    log_of,
    passing,
)


class Silent:
    """A store that is only read: whatever writes is an error."""

    def __init__(self, store):
        self.store = store

    def __getattr__(self, name):
        assert name in {"scan", "attempts", "events", "get", "records", "lines", "traits"}, name
        return getattr(self.store, name)


@pytest.mark.promise("whole-copy")
async def test_everything_is_copied(clock, source, target):
    """Timers with attempts and events, the layout, tenants and their audit; the source is read."""
    inserts = await furnished(source, 1_200)
    lines = await inhabited(source)
    tally = await copied(Silent(source), target, clock)
    assert await holdings(target) == await holdings(source)
    assert (tally.timers, tally.records) == (1_200, 1 + len(INHABITANTS))
    assert tally.lines == len(lines) == 300
    assert tally.attempts == sum(len(each.attempts) for each in inserts) > 1_000
    assert tally.events == sum(len(each.events) for each in inserts) > 10
    assert await target.records("copy") == []


async def test_an_empty_store_is_copied_too(clock, source, target):
    """A copy of an empty store is empty, and is no error."""
    tally = await copied(source, target, clock)
    assert (tally.timers, tally.total) == (0, 0)


async def test_it_is_told_how_far_it_is(clock, source, target):
    """First what was copied, then what was compared."""
    await furnished(source, 1_200)
    onlooker = Listening()
    await copied(source, target, clock, onlooker)
    assert onlooker.shown[:3] == [
        ("copied", 500, "timers"),
        ("copied", 1_000, "timers"),
        ("copied", 1_200, "timers"),
    ]
    assert ("compared", 1_200, "timers") in onlooker.shown
    assert onlooker.said == []


async def test_a_long_log_is_copied_whole(clock, source, target):
    """Also one that is longer than what is read at once."""
    timer = make_timer(version=3_000)
    await source.insert([Insert(timer, attempts=log_of(timer, 2 * contents.LOG_PART + 1))])
    tally = await copied(source, target, clock)
    assert tally.attempts == 2 * contents.LOG_PART + 1
    assert await holdings(target) == await holdings(source)


async def test_heavy_timers_are_inserted_a_few_at_a_time(clock, source, target):
    """So that no write carries more than fits."""
    payload = Raw(b'"' + b"x" * 3_000_000 + b'"')
    spec = make_spec(callback=HttpCallback(url="https://example.com", payload=payload))
    await insert(source, *(make_timer(spec=spec) for _ in range(5)))
    watched = FlakyStore(target)
    assert (await copied(source, watched, clock)).timers == 5
    assert watched.calls.count("insert") == 3


async def test_events_of_a_timer_that_is_gone_stay_behind(clock, source, target):
    """They can only be written with their timer."""
    timer, gone = make_timer(), make_timer()
    kept, lost = make_event(timer), make_event(gone)
    await source.insert([Insert(timer, (kept, lost))])
    assert (await copied(source, target, clock)).events == 1
    assert await target.events(range(4096), None, 10) == [kept]


async def test_too_many_events_are_told(clock, source, target, monkeypatch):
    """More events than fit into memory end the copy with a word about it."""
    monkeypatch.setattr(copying, "MOST_EVENTS", 2)
    timer = make_timer()
    await source.insert([Insert(timer, tuple(make_event(timer) for _ in range(3)))])
    with pytest.raises(StoreError, match="more than 2 events wait to be published"):
        await copied(source, target, clock)


# The target ------------------------------------------------------------------------------------


async def test_a_target_with_timers_is_refused(clock, source, target):
    """A target that has timers is refused, and nothing is written into it."""
    await furnished(source)
    await insert(target, make_timer())
    before = await holdings(target)
    with pytest.raises(ConfigurationError, match="TO: there are timers in it"):
        await copied(source, target, clock)
    assert await holdings(target) == before
    assert await target.records("copy") == []


async def test_a_second_copy_is_refused(clock, source, target):
    """Once it is over, what is in the target is no longer the copy's."""
    await furnished(source)
    await copied(source, target, clock)
    with pytest.raises(ConfigurationError, match="TO: there are timers in it"):
        await copied(source, target, clock)


async def test_the_same_store_twice_is_refused(clock, source):
    """Whatever it is called; and no trace of the copy is left in it."""
    with pytest.raises(ConfigurationError, match="the same database"):
        await copied(source, source, clock)
    assert await source.records("copy") == []


@pytest.mark.parametrize(
    "there",
    [
        Record(kind="layout", name="timers", version=3, data=b"other"),
        Record(kind="layout", name="timers", version=9, data=b"other"),
        Record(kind="layout", name="of nobody", data=b"x"),
    ],
)
async def test_the_layout_of_the_source_wins(clock, source, target, there):
    """An empty target may have been laid out in another way before."""
    await furnished(source)
    assert await target.put_record(None, there)
    await copied(source, target, clock)
    assert await target.records("layout") == [LAYOUT]


async def test_nodes_do_not_move(clock, source, target):
    """Their records are left behind; a dead one's is no obstacle for ever."""
    await furnished(source)
    await source.put_record(None, Record(kind="node", name="n", data=b'{"ttl": 3000}'))
    await copied(source, target, clock)
    assert await target.records("node") == []


# Going on --------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["noted", "not noted"])
def is_noted(request, monkeypatch):
    """Whether it is written down after each part how far the copy is, or never."""
    monkeypatch.setattr(copying, "NOTE_EVERY", 0.0 if request.param else 1e9)
    return request.param


@pytest.mark.promise("whole-copy")
@pytest.mark.parametrize("parts", [0, 1, 2])
async def test_a_copy_that_was_cut_off_goes_on(clock, source, target, parts, is_noted):
    """A copy goes on from wherever it was cut off, whether or not that was written down."""
    await furnished(source, 1_200)
    with pytest.raises(RuntimeError, match="power"):
        await copied(source, Breaking(target, parts), clock)
    assert len((await holdings(target))[0]) == 500 * parts
    onlooker = Listening()
    watched = FlakyStore(target)
    tally = await copied(source, watched, clock, onlooker)
    noted = 500 * parts if is_noted else 0
    assert onlooker.said == [f"going on behind {noted:,} timers that are there already"]
    assert watched.calls.count("insert") == 3 - noted // 500
    assert await holdings(target) == await holdings(source)
    assert tally.timers == 1_200


async def test_a_copy_that_was_cut_off_while_comparing_only_compares(clock, source, target):
    """A copy that goes on after it was cut off while comparing writes nothing again."""
    await furnished(source, 1_200)

    class Leaving(Listening):
        def at(self, task, timers):
            if task == "compared":
                raise RuntimeError("the power is gone")

    with pytest.raises(RuntimeError, match="power"):
        await copied(source, target, clock, Leaving())
    watched = FlakyStore(target)
    assert (await copied(source, watched, clock)).timers == 1_200
    assert "insert" not in watched.calls


async def test_a_journal_that_cannot_be_read_begins_anew(clock, source, target):
    """Another version may have written it; all that is there is found again."""
    await furnished(source)
    await target.put_record(None, Record(kind="copy", name="here", data=b"?"))
    await target.insert(await _some(source))
    await copied(source, target, clock)
    assert await holdings(target) == await holdings(source)


async def _some(store):
    return [
        Insert(timer, attempts=tuple(await store.attempts(timer.id, None, 100)))
        for timer in await store.scan(None, 3)
        if timer.version > 1
    ]


async def test_another_copy_that_brought_nothing_is_no_obstacle(clock, source, target):
    """Its journal is removed, so that it cannot go on behind this one's back."""
    await furnished(source)
    await target.put_record(None, Record(kind="copy", name="elsewhere", data=b"{}"))
    await copied(source, target, clock)
    assert await target.records("copy") == []


class Stealing:
    """A target in which somebody else begins to copy."""

    def __init__(self, store):
        self.store = store

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def insert(self, inserts):
        [journal] = await self.store.records("copy")
        await self.store.put_record(journal, replace(journal, version=journal.version + 7))
        return await self.store.insert(inserts)


async def test_two_copies_at_once_are_told_apart(clock, source, target):
    """The one that finds the other's journal ends."""
    await furnished(source)
    with pytest.raises(InUse, match="another copy"):
        await copied(source, Stealing(target), clock)


# A store that fails ----------------------------------------------------------------------------


@pytest.mark.promise("whole-copy")
@pytest.mark.parametrize("failing", ["before", "after"])
@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_store_that_fails_for_a_while_is_waited_for(clock, source, target, failing, side):
    """A copy is complete though a store failed before or after a write, and says what happened."""
    await furnished(source, 1_200)
    stores = {"source": FlakyStore(source), "target": FlakyStore(target)}
    flaky = stores[side]
    ticks = 0

    class Failing(Listening):
        def at(self, task, timers):
            if (task, timers) in {("copied", 500), ("compared", 500)}:
                flaky.failing = failing

    async def recover():
        nonlocal ticks
        ticks += 1
        if ticks % 40 == 0:
            flaky.failing = None

    onlooker = Failing()
    copy = copying.Copy(*stores.values(), clock, onlooker, name="here")
    tally = await passing(clock, copy.run(), recover)
    assert tally.timers == 1_200
    assert await holdings(target) == await holdings(source)
    assert await target.records("copy") == []
    assert any("as told; trying again in 0.5 s" in said for said in onlooker.said)
    assert {said.split(":")[0] for said in onlooker.said} == {"FROM" if side == "source" else "TO"}


class Mumbling:
    """A target that writes each record, and does not say so the first time."""

    def __init__(self, store):
        self.store = store
        self.is_silent = False

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def put_record(self, old, new):
        answer = await self.store.put_record(old, new)
        self.is_silent = not self.is_silent
        if self.is_silent:
            raise StoreUnavailable("the line was cut")
        return answer


async def test_a_journal_whose_answers_are_lost_is_read_again(clock, source, target):
    """What was written is what counts, for the journal and for all other records."""
    await furnished(source)
    await copied(source, Mumbling(target), clock)
    assert await holdings(target) == await holdings(source)
    assert await target.records("copy") == []


async def test_a_store_that_stays_away_ends_the_copy(clock, source, target):
    """After a minute, with its own words."""
    flaky = FlakyStore(target)
    flaky.failing = "before"
    began = clock.monotonic()
    with pytest.raises(StoreUnavailable, match="failed before it was done"):
        await copied(source, flaky, clock)
    assert clock.monotonic() - began > 60


@pytest.mark.promise("whole-copy")
async def test_a_source_that_is_half_full_is_refused(clock, source, target):
    """A source that is itself an unfinished copy is refused, for the rest would be lost unseen."""
    await furnished(source, 10)
    await source.put_record(None, Record(kind="copy", name="of another", data=b"{}"))
    with pytest.raises(ConfigurationError, match="FROM: a copy into it was begun"):
        await copied(source, target, clock)
    assert await target.scan(None, 1) == []
    assert await target.records("copy") == []
