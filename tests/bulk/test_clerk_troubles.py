"""What must not hold a clerk up: much work, heavy timers, documents that it cannot read."""

from itertools import pairwise
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from duetime.bulk import clerk, pages
from duetime.bulk.action import Action, read, record_of
from duetime.bulk.archive import kind_of
from duetime.bulk.clerk import LONGEST_PAUSE, SHORTEST_PAUSE
from duetime.errors import NotFound, StoreUnavailable
from duetime.searching import EVERYTHING
from duetime.stores import Record
from duetime.tenancy.caller import OPERATOR, Caller
from duetime.tenancy.role import Role
from duetime.testing import FakeClock, FlakyStore
from tests.bulk.desk import Desk, counts, put_timers, stored, under_way
from tests.factories import insert, make_spec, make_timer

STRANGE = b'{"what": 1}'


class SlowStore:
    """A store that takes a second to find timers."""

    def __init__(self, store: Any, clock: FakeClock) -> None:
        self.store, self.clock = store, clock
        self.traits = store.traits

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def search(self, query: Any) -> Any:
        self.clock.advance(1_000)
        return await self.store.search(query)


async def test_an_archive_with_a_document_of_another_version(desk: Desk):
    """What cannot be read is passed over, and stays for whoever can."""
    strange = Record(kind="ended action/default", name="default/x", data=STRANGE)
    await desk.store.put_record(None, strange)
    await desk.store.put_record(None, Record(kind="action", name="default/y", data=STRANGE))
    action = await desk.ask("cancel")
    await desk.work()
    assert (await desk.see(action)).state == "done"
    assert [each.id for each in await desk.service.actions.of(OPERATOR)] == [action.id]
    assert strange in await desk.store.records("ended action/default")


async def test_an_end_that_cannot_be_concluded(desk: Desk, clock: FakeClock, monkeypatch, caplog):
    """It is tried again after a while, and does not keep others from ending."""
    archive = desk.service.actions._archive
    real, tries = archive.put, []

    async def refusing(action):
        if action.verb == "shift":
            tries.append(clock.monotonic())
            raise ValueError("as told")
        await real(action)

    monkeypatch.setattr(archive, "put", refusing)
    bad, good = await desk.ask("shift", by="1h"), await desk.ask("cancel")
    for _ in range(50):
        pause = await desk.step()
    assert pause > 1
    assert (await desk.see(good)).state == "done"
    assert len(tries) == 1
    assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 1
    await desk.watch(int(SHORTEST_PAUSE) + 6)
    assert len(tries) == 2
    monkeypatch.setattr(archive, "put", real)
    await desk.watch(2 * int(SHORTEST_PAUSE) + 6)
    assert await under_way(desk.store) == []
    assert (await desk.see(bad)).state == "done"


async def test_many_nodes_try_an_end_again_and_again(store, clock: FakeClock, monkeypatch):
    """They do so together, after a pause that grows up to some minutes; and no end is lost."""
    desks = [Desk(store, clock) for _ in range(3)]
    tries: list[float] = []

    async def refusing(_action: Any) -> None:
        tries.append(clock.monotonic())
        raise ValueError("as told")

    with monkeypatch.context() as patched:
        for desk in desks:
            patched.setattr(desk.service.actions._archive, "put", refusing)
        bad = await desks[0].ask("cancel")
        for _ in range(0, 3_600, 3):
            clock.advance(3_000)
            for desk in desks:
                await desk.step()
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert pauses[0] == pytest.approx(SHORTEST_PAUSE, abs=6)
    assert pauses[1] == pytest.approx(2 * SHORTEST_PAUSE, abs=6)
    assert pauses[-1] == pytest.approx(LONGEST_PAUSE, abs=6)
    assert len(tries) < 3_600 / LONGEST_PAUSE + 6
    for _ in range(0, int(LONGEST_PAUSE) + 6, 3):
        clock.advance(3_000)
        for desk in desks:
            await desk.step()
    assert await under_way(store) == []
    assert (await desks[1].see(bad)).state == "done"


async def test_much_work_does_not_blind_it(store, clock: FakeClock):
    """A node whose rounds take long takes up what another one has left, all the same."""
    await put_timers(store, 200)
    dead, busy = Desk(store, clock), Desk(SlowStore(store, clock), clock)
    left = await dead.ask("cancel", {"tags": ["none"]})
    await dead.step()
    assert [each.node for each in await under_way(store)] == [dead.name]
    for _ in range(9):
        await busy.ask("pause", dry_run=True)
    for _ in range(6):
        pause = await busy.step()
        assert pause <= 3
        clock.advance(int(pause * 1000))
    assert len(await under_way(store)) == 9  # it is at work on all of its own
    assert (await busy.see(left)).state == "done"


class PickyStore:
    """A store that looks for the timers of one tenant in vain, until it gives up."""

    def __init__(self, store: Any, clock: FakeClock, takes: int) -> None:
        self.store, self.clock, self.takes = store, clock, takes
        self.traits = store.traits
        self.tries: list[float] = []
        self.is_well = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def search(self, query: Any) -> Any:
        if query.tenant == "bad" and not self.is_well:
            self.tries.append(self.clock.monotonic())
            self.clock.advance(self.takes)
            raise StoreUnavailable("it took too long")
        return await self.store.search(query)


BAD = Caller("bad", Role.WRITE)


@pytest.mark.parametrize("takes", [10, 15_000])
async def test_one_whose_timers_cannot_be_searched_holds_nobody_up(store, clock, takes):
    """It rests, longer each time, and says why; the others go on, and so does it at last."""
    picky = PickyStore(store, clock, takes)
    await put_timers(store, 100)
    await put_timers(store, 10, tenant="bad")
    desk = Desk(picky, clock)
    bad = await desk.ask("cancel", caller=BAD)
    good = await desk.ask("cancel")
    began_at = clock.monotonic()
    while not (await desk.see(good)).has_ended:
        clock.advance(int(await desk.step() * 1000) + 1)
    assert clock.monotonic() - began_at < 30
    assert counts(await desk.see(good)) == (100, 100, 0, 0)
    resting = await desk.see(bad, BAD)
    assert (resting.state, resting.error) == (
        "running",
        "the database did not answer; it is tried again",
    )
    picky.tries.clear()
    await desk.watch(200)
    assert 4 <= len(picky.tries) <= 15
    picky.is_well = True
    await desk.watch(int(LONGEST_PAUSE) + 6)
    ended = await desk.see(bad, BAD)
    assert (ended.state, ended.error, ended.tally.changed) == ("done", None, 10)


async def test_a_store_that_fails_for_all(store, clock: FakeClock):
    """Nothing rests for it by itself: the loop of the actions does, and tells of it once."""
    flaky = FlakyStore(store)
    await put_timers(store, 10)
    desk = Desk(flaky, clock)
    asked = [await desk.ask("pause"), await desk.ask("cancel")]
    await desk.step()
    flaky.failing = "before"
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            await desk.step()
    flaky.failing = None
    await desk.work()
    assert [(await desk.see(action)).state for action in asked] == ["done", "done"]


class OneSidedStore:
    """A store that cannot read the archive of one tenant."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.traits = store.traits
        self.is_well = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def records(self, kind: str) -> list[Record]:
        if kind == kind_of("bad") and not self.is_well:
            raise StoreUnavailable("it took too long")
        return await self.store.records(kind)


async def readable(store: Any) -> list[Action]:
    records = await store.records("action")
    return [read(record) for record in records if record.data != STRANGE]


async def put_prepared(desk: Desk) -> None:
    """Leave an action behind whose maker has died before it began; it is the first to be read."""
    action = desk.service.actions.new(BAD, "cancel", EVERYTHING, "prepared")
    action = replace(action, key="k", fingerprint="f")
    await desk.store.put_record(None, record_of(action, None))


async def test_one_that_cannot_begin_holds_nobody_up(store, clock: FakeClock, caplog):
    """Those behind it are worked on, it is told of once, and it begins in the end."""
    one_sided = OneSidedStore(store)
    desk, dead = Desk(one_sided, clock), Desk(store, clock)
    await put_timers(store, 3, tenant="bad")
    await put_prepared(desk)
    await store.put_record(None, Record(kind="action", name="zoo/y", data=STRANGE))
    await desk.watch(66)
    good = await desk.ask("cancel")
    await desk.watch(9)
    assert (await desk.see(good)).state == "done"
    left = await dead.ask("cancel")
    await dead.service.actions._clerk._look()
    assert [action.node for action in await readable(store)] == [None, dead.name]
    await desk.watch(21)
    assert (await desk.see(left)).state == "done"
    assert [action.tenant for action in await readable(store)] == ["bad"]
    assert len([each for each in caplog.records if "the store fails at it" in each.message]) == 1
    one_sided.is_well = True
    await desk.watch(9)
    assert await readable(store) == []
    assert [each.state for each in await desk.service.actions.of(BAD)] == ["done"]


async def test_a_store_that_fails_at_all_that_is_to_begin(store, clock: FakeClock):
    """That is told as what it is."""
    one_sided = OneSidedStore(store)
    desk = Desk(one_sided, clock)
    await put_prepared(desk)
    await desk.watch(60)
    clock.advance(3_000)
    with pytest.raises(StoreUnavailable):
        await desk.step()
    one_sided.is_well = True
    await desk.watch(9)
    assert await under_way(store) == []


async def test_one_that_rests_can_be_canceled(store, clock: FakeClock):
    """At once: it does not rest on until it may end."""
    desk = Desk(PickyStore(store, clock, 15_000), clock)
    bad = await desk.ask("cancel", caller=BAD)
    await desk.watch(300)
    assert (await desk.see(bad, BAD)).troubles > 3
    await desk.service.actions.cancel(BAD, bad.id)
    await desk.step()
    await desk.step()
    assert (await desk.see(bad, BAD)).state == "canceled"


async def test_a_failed_action_counts_what_it_has_written(desk: Desk, monkeypatch):
    """Those of its last batch that were changed are changed; the others have failed."""
    made = await put_timers(desk.store, 3)
    real = desk.store.apply

    async def failing(changes):
        await real(changes[:2])
        raise ZeroDivisionError

    monkeypatch.setattr(desk.store, "apply", failing)
    action = await desk.ask("cancel")
    await desk.work()
    failed = await desk.see(action)
    assert (failed.state, failed.error) == ("failed", "unexpected error: ZeroDivisionError")
    assert counts(failed) == (3, 2, 0, 1)
    assert [each.timer for each in failed.tally.examples] == [made[2].id]


async def test_a_batch_whose_outcome_is_known_is_counted_as_it_was(desk: Desk, monkeypatch):
    """Also if what comes after it fails: who was skipped has not failed."""
    made = await put_timers(desk.store, 3)
    await desk.service.pause(OPERATOR, made[0].id)
    action = await desk.ask("pause")
    await desk.step()
    monkeypatch.setattr(desk.service.actions._clerk, "_end", _once_failing(desk))
    await desk.work()
    assert counts(await desk.see(action)) == (3, 2, 1, 0)


def _once_failing(desk: Desk) -> Any:
    real = desk.service.actions._clerk._end
    calls = []

    async def end(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 1:
            raise ZeroDivisionError
        await real(*args)

    return end


async def test_heavy_timers(store, clock: FakeClock, monkeypatch):
    """A batch has few of them, one at least; and none is left out."""
    monkeypatch.setattr(clerk, "BATCH", 100)
    monkeypatch.setattr(clerk, "HEAVIEST", 10_000)
    sizes = [100, 6_000, 6_000, 20_000, 20_000, 3_000, 3_000, 100]
    made = [
        make_timer(
            created_at=1_749_000_000_000 + place,
            spec=make_spec(metadata=Raw(b'"' + b"x" * size + b'"')),
        )
        for place, size in enumerate(sizes)
    ]
    await insert(store, *made)
    desk = Desk(store, clock)
    action = await desk.ask("cancel")
    batches = []
    while await under_way(store):
        await desk.step()
        batches += [each.batch for each in await under_way(store) if each.batch]
    weights = {timer.id: timer.weight for timer in made}
    assert all(len(batch) == 1 or sum(weights[id_] for id_ in batch) <= 10_000 for batch in batches)
    assert [id_ for batch in batches for id_ in batch] == [timer.id for timer in made]
    assert counts(await desk.see(action)) == (8, 8, 0, 0)
    assert {timer.status.value for timer in await stored(store, made)} == {"canceled"}


class WeighingStore:
    """A store that notes what each search has answered: how many timers, and of which weight."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.traits = store.traits
        self.answers: list[tuple[int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def search(self, query: Any) -> Any:
        page = await self.store.search(query)
        self.answers.append((len(page.timers), sum(timer.weight for timer in page.timers)))
        return page


SIFTED = {"status": ["pending", "paused"]}


@pytest.mark.parametrize("wanted", [{"all": True}, SIFTED])
async def test_heavy_timers_are_read_by_few(store, clock: FakeClock, monkeypatch, wanted):
    """As many as make a batch, whether the store finds them or they are sifted."""
    monkeypatch.setattr(clerk, "BATCH", 100)
    monkeypatch.setattr(clerk, "HEAVIEST", 20_000)
    spec = make_spec(metadata=Raw(b'"' + b"x" * 6_000 + b'"'))
    made = await put_timers(store, 70, spec=spec)
    weighing = WeighingStore(store)
    desk = Desk(weighing, clock)
    action = await desk.ask("cancel", wanted)
    await desk.work()
    assert counts(await desk.see(action)) == (70, 70, 0, 0)
    assert {timer.status.value for timer in await stored(store, made)} == {"canceled"}
    (first, _), *others = weighing.answers
    assert first == pages.FIRST
    assert max(weight for _, weight in others) <= 20_000
    assert max(count for count, _ in others) == 2


@pytest.mark.parametrize("wanted", [{"all": True}, SIFTED])
async def test_light_timers_are_read_by_many(store, clock: FakeClock, monkeypatch, wanted):
    """It begins with few, and has full pages soon."""
    monkeypatch.setattr(clerk, "BATCH", 100)
    made = await put_timers(store, 700)
    weighing = WeighingStore(store)
    desk = Desk(weighing, clock)
    action = await desk.ask("cancel", wanted)
    await desk.work()
    assert counts(await desk.see(action)) == (700, 700, 0, 0)
    assert {timer.status.value for timer in await stored(store, made)} == {"canceled"}
    assert [count for count, _ in weighing.answers[:3]] == [16, 32, 64]
    assert len(weighing.answers) < 14


async def test_a_look_at_one_under_way_reads_no_archive(store, clock: FakeClock):
    """Who waits for an action asks again and again."""
    flaky = FlakyStore(store)
    desk = Desk(flaky, clock)
    await put_timers(store, 20)
    action = await desk.ask("cancel")
    flaky.calls.clear()
    assert (await desk.see(action)).state == "running"
    assert flaky.calls == ["records"]
    with pytest.raises(NotFound):
        await desk.service.actions.get(OPERATOR, "0" * 36)
