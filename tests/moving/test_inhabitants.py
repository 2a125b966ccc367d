"""Tenants, keys, groups, actions and the audit move along with the timers."""

import pytest
from msgspec.structs import replace

from duetime.errors import ConfigurationError, Conflict
from duetime.moving import contents, copying
from duetime.moving.copying import LINES, Copy
from duetime.stores import Insert, Record
from duetime.testing import FlakyStore
from duetime.timer import Status
from tests.factories import NOW, make_line, make_spec, make_timer
from tests.moving.houses import (
    INHABITANTS,
    Listening,
    copied,
    furnished,
    holdings,
    inhabited,
    lines_of,
    log_of,
    passing,
)

DAY = 86_400_000


class Watched:
    """A store of which is written down what is asked for lines of the audit."""

    def __init__(self, store):
        self.store = store
        self.limits = []
        self.written = []
        self.kept_for = set()
        self.lasts_for = None  # writes, until the power goes

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def lines(self, tenant, after, limit, *, descending):
        self.limits.append(limit)
        return await self.store.lines(tenant, after, limit, descending=descending)

    async def write_lines(self, lines, keep_for):
        if len(self.written) == self.lasts_for:
            raise RuntimeError("the power is gone")
        self.written.append([line.id for line in lines])
        self.kept_for.add(keep_for)
        await self.store.write_lines(lines, keep_for)


class Leaving(Listening):
    """Leaves as soon as lines are compared."""

    def at(self, task, count, things="timers"):
        if (task, things) == ("compared", LINES):
            raise RuntimeError("the power is gone")


# What moves ------------------------------------------------------------------------------------


@pytest.mark.promise("whole-copy")
@pytest.mark.parametrize("kind", dict.fromkeys(record.kind for record in INHABITANTS))
async def test_every_kind_of_record_moves(clock, source, target, kind):
    """As it is, byte for byte and with its version."""
    await inhabited(source)
    assert (await copied(source, target, clock)).records == len(INHABITANTS)
    moved = await target.records(kind)
    assert moved == [record for record in INHABITANTS if record.kind == kind] != []


async def test_what_nodes_note_down_stays(clock, source, target):
    """A node that finds no revision reads everything anew."""
    await source.put_record(None, Record(kind="revision", name="key", version=17))
    assert (await copied(source, target, clock)).records == 0
    assert await target.records("revision") == []


@pytest.mark.promise("whole-copy")
async def test_the_audit_of_every_tenant_moves_a_part_at_a_time(clock, source, target):
    """That of the one who is always there, and of one who was deleted, too."""
    lines = await inhabited(source, 2 * contents.LINES_PART + 1)
    old, new = Watched(source), Watched(target)
    tally = await copied(old, new, clock)
    assert tally.lines == len(lines) == 3 * (2 * contents.LINES_PART + 1)
    for tenant in ("default", "acme", "gone"):
        mine = [line for line in lines if line.tenant == tenant]
        assert await lines_of(target, tenant) == await lines_of(source, tenant)
        assert sorted(mine, key=lambda line: line.id) == await lines_of(target, tenant)
    assert {*old.limits, *new.limits} == {contents.LINES_PART}
    assert [len(each) for each in new.written] == 3 * [1_000, 1_000, 1]


@pytest.mark.parametrize("keep_for", [None, 90 * DAY])
async def test_a_target_is_told_how_long_to_keep_lines(clock, source, target, keep_for):
    """Some drop them by themselves."""
    await inhabited(source)
    watched = Watched(target)
    await copied(source, watched, clock, keep_lines_for=keep_for)
    assert watched.kept_for == {keep_for}


async def test_it_is_told_how_far_it_is_with_lines(clock, source, target):
    """When it is done with the timers, on either way."""
    await furnished(source)
    await inhabited(source, 1_200)
    onlooker = Listening()
    await copied(source, target, clock, onlooker)
    of_lines = [1_000, 1_200, 2_200, 2_400, 3_400, 3_600]
    assert onlooker.shown == [
        ("copied", 100, "timers"),
        *(("copied", count, LINES) for count in of_lines),
        ("compared", 100, "timers"),
        ("compared", 100, "timers"),
        *(("compared", count, LINES) for count in of_lines),
    ]


@pytest.mark.parametrize("there", [*(INHABITANTS[place] for place in (0, 3, 5)), make_line()])
async def test_a_target_that_is_lived_in_is_refused(clock, source, target, there):
    """It has no timers, but whoever has a key of it would find others in it."""
    await inhabited(source)
    if isinstance(there, Record):
        await target.put_record(None, there)
    else:
        await target.write_lines([there], None)
    before = await holdings(target)
    with pytest.raises(ConfigurationError, match="TO: there are tenants, keys, groups or lines"):
        await copied(source, target, clock)
    assert await holdings(target) == before
    assert await target.records("copy") == []


# Going on --------------------------------------------------------------------------------------


@pytest.mark.promise("whole-copy")
@pytest.mark.parametrize("is_noted", [True, False])
@pytest.mark.parametrize("writes", range(6))
async def test_a_copy_that_was_cut_off_goes_on_in_the_audit(
    clock, source, target, monkeypatch, *, writes, is_noted
):
    """At the line that was written down last; without one, all are written again."""
    monkeypatch.setattr(copying, "NOTE_EVERY", 0.0 if is_noted else 1e9)
    await furnished(source, 10)
    await inhabited(source, 1_200)
    breaking = Watched(target)
    breaking.lasts_for = writes
    with pytest.raises(RuntimeError, match="power"):
        await copied(source, breaking, clock)
    onlooker, watched = Listening(), Watched(target)
    tally = await copied(source, watched, clock, onlooker)
    parts = [1_000, 200] * 3
    noted = writes if is_noted else 0
    assert [len(each) for each in watched.written] == parts[noted:]
    and_lines = f" and {sum(parts[:noted]):,} lines of the audit" if noted else ""
    assert onlooker.said == [f"going on behind 10 timers{and_lines} that are there already"]
    assert tally.lines == 3_600
    assert await holdings(target) == await holdings(source)


async def test_a_copy_that_was_cut_off_while_comparing_writes_no_line_again(clock, source, target):
    """It only compares."""
    await inhabited(source, 1_200)
    with pytest.raises(RuntimeError, match="power"):
        await copied(source, target, clock, Leaving())
    watched = Watched(target)
    assert (await copied(source, watched, clock)).lines == 3_600
    assert watched.written == []


async def test_a_key_that_was_taken_away_meanwhile_is_gone_in_the_target(clock, source, target):
    """The old house was opened once more before the copy went on."""
    await inhabited(source)
    with pytest.raises(RuntimeError, match="power"):
        await copied(source, target, clock, Leaving())
    [key, _] = await source.records("key")
    assert await source.put_record(key, None)
    await copied(source, target, clock)
    assert key not in await target.records("key")
    assert await holdings(target) == await holdings(source)


@pytest.mark.parametrize("failing", ["before", "after"])
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("task", ["copied", "compared"])
async def test_a_store_that_fails_among_lines_is_waited_for(
    clock, source, target, *, failing, side, task
):
    """A line that was written, and not acknowledged, is kept once."""
    await inhabited(source, 1_200)
    stores = {"source": FlakyStore(source), "target": FlakyStore(target)}
    ticks = 0

    class Failing(Listening):
        def at(self, now, count, things="timers"):
            if (now, count, things) == (task, 1_000, LINES):
                stores[side].failing = failing

    async def recover():
        nonlocal ticks
        ticks += 1
        if ticks % 40 == 0:
            stores[side].failing = None

    onlooker = Failing()
    copy = Copy(*stores.values(), clock, onlooker, name="here")
    assert (await passing(clock, copy.run(), recover)).lines == 3_600
    assert any("trying again in 0.5 s" in said for said in onlooker.said)
    assert await holdings(target) == await holdings(source)


# What differs ----------------------------------------------------------------------------------


class Meddling(Listening):
    """Changes something once the lines, which come last, have been copied."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def at(self, task, count, things="timers"):
        if (task, count, things) == ("copied", 300, LINES):
            self.change()


KEY = ("key", "fedcba9876543210")


@pytest.mark.promise("whole-copy")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda records: records.update({KEY: replace(records[KEY], data=b'{"expires_at": 1}')}),
            "the record of key fedcba9876543210 differs in the target",
        ),
        (
            lambda records: records.pop(("tenant", "zoo")),
            "the record of tenant zoo is missing in the target",
        ),
        (
            lambda records: records.pop(("ended action/gone", "gone/a4")),
            "the record of ended action/gone gone/a4 is missing in the target",
        ),
        (
            lambda records: records.update(
                {("action", "x"): Record(kind="action", name="x", data=b"{}")}
            ),
            "the record of action x is in the target only",
        ),
    ],
)
async def test_a_record_that_differs_is_named(clock, source, target, change, words):
    """By its kind and its name, whichever way it differs, and no other."""
    await inhabited(source)
    with pytest.raises(Conflict, match=rf"the same: {words} \("):
        await copied(source, target, clock, Meddling(lambda: change(target._records)))
    assert len(await target.records("copy")) == 1


@pytest.mark.promise("whole-copy")
@pytest.mark.parametrize("tenant", ["default", "acme", "gone"])
@pytest.mark.parametrize("place", [0, 50, 99])
@pytest.mark.parametrize("way", ["differs in", "is missing in", "is in the target only"])
async def test_a_line_that_differs_is_named(clock, source, target, *, tenant, place, way):
    """By its id and its tenant, wherever it is, and no other."""
    lines = await inhabited(source)
    line = [each for each in lines if each.tenant == tenant][place]

    def change():
        if way == "differs in":
            target._lines[line.id] = replace(line, actor="somebody else")
        elif way == "is missing in":
            del target._lines[line.id]
        else:
            del source._lines[line.id]

    with pytest.raises(
        Conflict, match=rf"the same: the line {line.id} of the audit of {tenant} {way}[^;]* \(noth"
    ):
        await copied(source, target, clock, Meddling(change))


async def test_many_lines_that_differ_are_cut_short(clock, source, target):
    """They are found part by part, and ten are named."""
    await inhabited(source)

    def change():
        target._lines.clear()

    with pytest.raises(Conflict, match="; and more") as refused:
        await copied(source, target, clock, Meddling(change))
    assert str(refused.value).count("of the audit of acme is missing in the target") == 10


# What is dropped meanwhile ---------------------------------------------------------------------


def dropping(store):
    """The store, with an engine that drops by itself what is old."""
    watched = Watched(store)
    watched.traits = replace(store.traits, drops_by_itself=True)
    return watched


def drop_lines(store, count):
    for line in sorted(store._lines)[:count]:
        del store._lines[line]


async def test_lines_that_the_source_drops_meanwhile_are_no_conflict(clock, source, target):
    """The target has them, and it is told how many."""
    await inhabited(source)
    onlooker = Meddling(lambda: drop_lines(source, 7))
    assert (await copied(dropping(source), target, clock, onlooker)).lines == 300
    [sentence] = onlooker.said
    assert sentence.startswith(
        "FROM drops what is old: 7 timers, logs or lines of the audit that TO has are no longer"
    )
    assert await target.records("copy") == []


async def test_a_source_that_drops_by_itself_does_not_change_lines(clock, source, target):
    """What both have must be the same, and what was there must have come."""
    lines = await inhabited(source)

    def change():
        drop_lines(source, 7)
        target._lines[lines[200].id] = replace(lines[200], actor="somebody else")
        del target._lines[lines[201].id]

    with pytest.raises(Conflict) as refused:
        await copied(dropping(source), target, clock, Meddling(change))
    assert str(refused.value).count("the line") == 2
    assert f"{lines[200].id} of the audit of acme differs" in str(refused.value)
    assert f"{lines[201].id} of the audit of gone is missing" in str(refused.value)


async def test_lines_whose_time_is_over_may_be_dropped_by_the_target(clock, source, target):
    """They came with the time when they were to go, which it was already."""
    await inhabited(source)
    clock.advance(90 * DAY + 2_500 - (clock.now() - NOW))
    onlooker = Meddling(lambda: drop_lines(target, 7))
    tally = await copied(source, dropping(target), clock, onlooker, keep_lines_for=90 * DAY)
    assert tally.lines == 293
    [sentence] = onlooker.said
    assert sentence.startswith(
        "TO drops what is old: 7 timers, logs or lines of the audit that FROM has are no longer"
    )


@pytest.mark.parametrize(
    ("age", "keep_for", "drops"),
    [(89, 90 * DAY, True), (91, None, True), (91, 90 * DAY, False)],
    ids=["too young", "kept for ever", "nobody drops"],
)
async def test_other_lines_may_not_be_dropped(clock, source, target, *, age, keep_for, drops):
    """They are missing."""
    await inhabited(source)
    clock.advance(age * DAY)
    there = dropping(target) if drops else target
    onlooker = Meddling(lambda: drop_lines(target, 7))
    with pytest.raises(Conflict, match="is missing in the target") as refused:
        await copied(source, there, clock, onlooker, keep_lines_for=keep_for)
    assert str(refused.value).count("the line") == 7


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_timer_whose_own_retention_is_over_may_be_dropped_by_the_target(
    clock, source, target, is_whole
):
    """With its log, or its log before it."""
    spec = make_spec(retention=DAY)
    timer = make_timer(status=Status.COMPLETED, wake_at=None, version=5, spec=spec)
    await source.insert([Insert(timer, attempts=log_of(timer, 3))])
    await inhabited(source)
    clock.advance(2 * DAY)

    def change():
        target._attempts.pop(timer.id)
        if is_whole:
            target._timers.pop(timer.id)

    onlooker = Meddling(change)
    await copied(source, dropping(target), clock, onlooker)
    assert onlooker.said[0].startswith("TO drops what is old: 1 timers, logs or lines")
