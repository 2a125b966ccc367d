"""What differs between the two sides of a copy is named."""

import pytest
from msgspec.structs import replace

from duetime import ids
from duetime.errors import Conflict
from duetime.moving import copying
from duetime.stores import Change, Insert, Record
from duetime.timer import FINISHED, Status
from tests.factories import NOW, insert, make_event, make_timer, with_spec
from tests.moving.houses import Breaking, Listening, copied, furnished, log_of


async def cut_off(source, target, clock):
    """A copy of 1,200 timers that has written 1,000 of them."""
    await furnished(source, 1_200)
    with pytest.raises(RuntimeError):
        await copied(source, Breaking(target, 2), clock)
    return await target.scan(None, 1_000)


@pytest.mark.promise("whole-copy")
async def test_a_timer_changed_in_the_target_is_a_conflict(clock, source, target):
    """A timer that was changed in the target is named and kept, and nothing more is copied."""
    changed = (await cut_off(source, target, clock))[700]
    await target.apply([Change(changed, with_spec(changed, name="new"))])
    with pytest.raises(Conflict, match=f"{changed.id} differs in the target .*nothing was overw"):
        await copied(source, target, clock)
    [stored] = await target.get([changed.id])
    assert stored.spec.name == "new"
    assert len(await target.scan(None, 2_000)) == 1_000


async def test_a_timer_changed_behind_the_journal_is_a_conflict(clock, source, target, monkeypatch):
    """It is not inserted again, but compared."""
    monkeypatch.setattr(copying, "NOTE_EVERY", 0.0)
    changed = (await cut_off(source, target, clock))[700]
    await target.apply([Change(changed, with_spec(changed, name="new"))])
    with pytest.raises(Conflict, match=f"the same: {changed.id} differs in the target"):
        await copied(source, target, clock)
    assert len(await target.records("copy")) == 1


async def test_a_key_that_was_taken_in_the_target_is_a_conflict(clock, source, target):
    """By a timer that somebody made there meanwhile."""
    await cut_off(source, target, clock)
    missing = (await source.scan(None, 2_000))[-1]
    await insert(target, replace(missing, id=make_timer().id))
    with pytest.raises(Conflict, match=missing.id):
        await copied(source, target, clock)


async def test_what_only_the_target_has_is_a_conflict(clock, source, target):
    """A timer that only the target has is named."""
    await cut_off(source, target, clock)
    more = make_timer()
    await insert(target, more)
    with pytest.raises(Conflict, match=f"{more.id} is in the target only"):
        await copied(source, target, clock)


@pytest.mark.promise("whole-copy")
async def test_an_attempt_more_in_the_target_is_a_conflict(clock, source, target):
    """An attempt that only the target has is found, though the timers are the same."""
    timer = make_timer(version=5)
    await source.insert([Insert(timer, attempts=log_of(timer, 1))])
    await target.put_record(None, Record(kind="copy", name="here", data=b"?"))
    await target.insert([Insert(timer, attempts=log_of(timer, 2))])
    with pytest.raises(Conflict, match=f"{timer.id} differs in the target"):
        await copied(source, target, clock)


async def test_an_event_more_in_the_target_is_a_conflict(clock, source, target):
    """It would be told twice, or for the first time."""
    timer = make_timer()
    await source.insert([Insert(timer)])
    await target.put_record(None, Record(kind="copy", name="here", data=b"?"))
    await target.insert([Insert(timer, (make_event(timer),))])
    with pytest.raises(Conflict, match="the events that wait to be published differ"):
        await copied(source, target, clock)


async def test_many_differences_are_cut_short(clock, source, target):
    """Ten differences are named, and that there are more is told."""
    for timer in (await cut_off(source, target, clock))[:50]:
        await target.apply([Change(timer, with_spec(timer, name="new"))])
    with pytest.raises(Conflict, match="; and more") as refused:
        await copied(source, target, clock)
    assert str(refused.value).count("differs in the target") == 10


class Dropping:
    """A source whose engine drops what was finished: some of it between copying and comparing."""

    def __init__(self, store, *, drops_by_itself=True):
        self.store = store
        self.traits = replace(store.traits, drops_by_itself=drops_by_itself)
        self.scans = 0
        self.shortened = None  # a timer of whose log the first line is gone

    def __getattr__(self, name):
        return getattr(self.store, name)

    @property
    def is_compared(self):
        return self.scans > 2  # the first two are the copy's

    async def scan(self, after, limit):
        self.scans += 1
        if self.is_compared:
            await self.store.purge(ids.ALL_SHARDS, NOW * 2, 10_000)
        return await self.store.scan(after, limit)

    async def attempts(self, timer, after, limit):
        lines = await self.store.attempts(timer, after, limit)
        return lines[1:] if self.is_compared and timer == self.shortened else lines


async def test_what_the_source_drops_meanwhile_is_no_conflict(clock, source, target):
    """Finished timers, their events, and lines of logs: the target has them, and that is told."""
    inserts = await furnished(source, 120)
    told = make_timer(status=Status.COMPLETED, wake_at=None, version=3)
    await source.insert([Insert(told, (make_event(told),))])
    dropping = Dropping(source)
    dropping.shortened = next(
        each.timer.id for each in inserts if each.attempts and each.timer.status is Status.PAUSED
    )
    onlooker = Listening()
    tally = await copied(dropping, target, clock, onlooker)
    assert tally.timers == 121
    assert await target.get([told.id]) == [told]
    finished = sum(each.timer.status in FINISHED for each in inserts) + 1
    [sentence] = onlooker.said
    assert sentence.startswith(f"FROM drops what is old: {finished + 2} timers, logs or")
    assert await target.records("copy") == []


async def test_an_engine_that_drops_nothing_has_not_dropped_it(clock, source, target):
    """Somebody else has: it is named."""
    await furnished(source, 120)
    with pytest.raises(Conflict, match="is in the target only"):
        await copied(Dropping(source, drops_by_itself=False), target, clock)


async def test_what_is_alive_is_not_dropped(clock, source, target):
    """A pending timer that only the target has is named, whatever else was dropped."""
    await furnished(source, 120)
    dropping = Dropping(source)
    await target.put_record(None, Record(kind="copy", name="here", data=b"?"))
    more = make_timer()
    await insert(target, more)
    with pytest.raises(Conflict, match=f"the same: {more.id} is in the target only"):
        await copied(dropping, target, clock)


async def test_an_event_of_a_timer_that_is_there_was_not_dropped(clock, source, target):
    """An event of a timer that both have is named, for it would be told twice."""
    await furnished(source, 120)
    timer = make_timer()
    await insert(source, timer)
    await target.put_record(None, Record(kind="copy", name="here", data=b"?"))
    await target.insert([Insert(timer, (make_event(timer),))])
    with pytest.raises(Conflict, match="the same: the events that wait to be published differ"):
        await copied(Dropping(source), target, clock)
