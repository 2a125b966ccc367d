"""The execution log: in the timer's own document while it is short, and beside it when it grows."""

import pytest
from msgspec.structs import replace
from pymongo.errors import AutoReconnect

from duetime import ids
from duetime.errors import StoreUnavailable
from duetime.stores import Change, Insert
from duetime.stores.mongodb import writes
from duetime.stores.mongodb.documents import to_id
from duetime.timer import Status
from tests.factories import NOW, claim_of, insert, make_attempt, make_timer


def grown(timer, attempt=None, **changes):
    """A change to the next version, with a line of the log."""
    return Change(timer, replace(timer, version=timer.version + 1, **changes), attempt)


async def logged(store, timer, count):
    """Write so many lines, one after the other; return the timer and the lines."""
    lines = []
    for number in range(1, count + 1):
        lines.append(make_attempt(timer, attempt=number))
        change = grown(timer, lines[-1])
        assert await store.apply([change]) == [True]
        timer = change.new
    return timer, lines


async def test_a_long_log_does_not_stay_in_the_document(mongodb, database, monkeypatch):
    """It is read as one, in order and page by page, wherever its lines lie."""
    monkeypatch.setattr(writes, "MOST_LINES", 4)
    timer = make_timer()
    await insert(mongodb, timer)
    timer, lines = await logged(mongodb, timer, 11)
    assert len((await database["timers"].find_one())["log"]) <= 4
    assert await database["attempts"].count_documents({}) >= 7
    assert await mongodb.attempts(timer.id, None, 99) == lines
    assert await mongodb.attempts(timer.id, (1, 3), 5) == lines[3:8]
    assert await mongodb.attempts(timer.id, (1, 8), 99) == lines[8:]
    assert await mongodb.attempts(timer.id, None, 2) == lines[:2]


async def test_a_change_that_loses_takes_no_line_away(mongodb, monkeypatch):
    """Lines that were copied for a change that then lost are not read twice."""
    monkeypatch.setattr(writes, "MOST_LINES", 4)
    timer = make_timer()
    await insert(mongodb, timer)
    timer, lines = await logged(mongodb, timer, 2)
    winner, loser = grown(timer), grown(timer, make_attempt(timer, attempt=9))
    updates = await mongodb._opened.writes._updates(mongodb._client.start_session(), [(0, loser)])
    assert await mongodb.apply([winner]) == [True]
    assert updates
    assert await mongodb.apply([loser]) == [False]
    assert await mongodb.attempts(timer.id, None, 9) == lines


async def test_a_log_that_was_moved_is_dropped_with_its_timer(mongodb, database, monkeypatch):
    """And only that."""
    monkeypatch.setattr(writes, "MOST_LINES", 2)
    gone, kept = make_timer(), make_timer()
    await insert(mongodb, gone, kept)
    gone, _ = await logged(mongodb, gone, 5)
    kept, lines = await logged(mongodb, kept, 5)
    done = grown(gone, status=Status.COMPLETED, wake_at=None, updated_at=NOW)
    assert await mongodb.apply([done]) == [True]
    assert await mongodb.purge(ids.ALL_SHARDS, NOW + 1, 10) == 1
    left = [bytes(each["_id"])[:16].hex() async for each in database["attempts"].find()]
    assert set(left) == {kept.id.replace("-", "")}
    assert await mongodb.attempts(kept.id, None, 9) == lines


@pytest.mark.parametrize("step", ["_bury", "clear", "the lines", "the graves"])
async def test_a_purge_that_is_cut_off_leaves_nothing_behind(mongodb, database, monkeypatch, step):
    """Wherever it ends, the next one finds what is left of timer and log."""
    timer = make_timer(status=Status.COMPLETED, wake_at=None)
    lines = tuple(make_attempt(timer, attempt=number) for number in range(1, 5))
    await mongodb.insert([Insert(timer, attempts=lines)])
    purging = mongodb._opened.purging

    async def cut_off(*_):
        raise AutoReconnect("connection closed")

    with monkeypatch.context() as patched:
        if step.startswith("the"):
            graves = purging._graves
            collection = graves._attempts if step == "the lines" else graves._graves
            patched.setattr(collection, "delete_many", cut_off)
        else:
            patched.setattr(purging if step == "_bury" else purging._graves, step, cut_off)
        with pytest.raises(StoreUnavailable):
            await mongodb.purge(ids.ALL_SHARDS, NOW + 1, 10)
    # Until then, the log is there as long as its timer is.
    [stored] = await mongodb.get([timer.id])
    assert await mongodb.attempts(timer.id, None, 9) == (list(lines) if stored else [])
    assert await mongodb.purge(ids.ALL_SHARDS, NOW + 1, 10) == (step == "_bury")
    for name in ("timers", "attempts", "graves"):
        assert await database[name].count_documents({}) == 0


async def test_a_timer_with_a_log_beside_it_that_was_begun_anew_stays(mongodb, monkeypatch):
    """It is looked at once more in the transaction that would drop it."""
    timer = make_timer(status=Status.COMPLETED, wake_at=None)
    lines = tuple(make_attempt(timer, attempt=number) for number in range(1, 5))
    await mongodb.insert([Insert(timer, attempts=lines)])
    anew = grown(timer, status=Status.PENDING, wake_at=NOW + 5)
    bury = mongodb._opened.purging._bury

    async def too_late(*arguments):
        assert await mongodb.apply([anew]) == [True]
        return await bury(*arguments)

    monkeypatch.setattr(mongodb._opened.purging, "_bury", too_late)
    assert await mongodb.purge(ids.ALL_SHARDS, NOW + 1, 10) == 0
    assert await mongodb.get([timer.id]) == [anew.new]
    assert await mongodb.attempts(timer.id, None, 9) == list(lines)


@pytest.mark.parametrize("is_cut_off", [False, True])
async def test_a_log_beside_a_timer_goes_when_it_is_removed(
    mongodb, database, monkeypatch, is_cut_off
):
    """At once; or, since the timer is gone in any case, with the next purge."""
    timer, other = make_timer(), make_timer()
    lines = tuple(make_attempt(timer, attempt=number) for number in range(1, 5))
    await mongodb.insert([Insert(timer, attempts=lines), Insert(other)])

    async def cut_off(*_):
        raise AutoReconnect("connection closed")

    with monkeypatch.context() as patched:
        if is_cut_off:
            patched.setattr(mongodb._opened.removing._graves, "clear", cut_off)
        assert await mongodb.remove([timer, other]) == [True, True]
    assert await mongodb.attempts(timer.id, None, 9) == []
    assert await database["graves"].count_documents({}) == is_cut_off
    await mongodb.purge(ids.ALL_SHARDS, NOW, 10)
    for name in ("timers", "attempts", "graves"):
        assert await database[name].count_documents({}) == 0


async def test_who_came_back_keeps_its_log(mongodb, database):
    """A grave that was left tells of an earlier life, before a copy brought the timer again."""
    timer = make_timer()
    lines = tuple(make_attempt(timer, attempt=number) for number in range(1, 5))
    await database["graves"].insert_one({"_id": to_id(timer.id)})
    await mongodb.insert([Insert(timer, attempts=lines)])
    assert await mongodb.purge(ids.ALL_SHARDS, NOW + 1, 10) == 0
    assert await mongodb.attempts(timer.id, None, 9) == list(lines)
    assert await database["graves"].count_documents({}) == 0


async def test_a_log_that_is_brought_along(mongodb):
    """A timer that moved in from another store has its log, and goes on with it."""
    timer = make_timer(version=130)
    lines = tuple(make_attempt(timer, attempt=number) for number in range(1, 65))
    assert await mongodb.insert([Insert(timer, attempts=lines)]) == [None]
    assert await mongodb.attempts(timer.id, None, 99) == list(lines)
    change = Change(timer, claim_of(timer).new, make_attempt(timer, attempt=65))
    assert await mongodb.apply([change]) == [True]
    assert await mongodb.attempts(timer.id, (1, 63), 9) == [lines[-1], change.attempt]


async def test_a_line_that_is_written_again_counts_as_it_is_now(mongodb, monkeypatch):
    """The newest of two with the same number is the one that is read."""
    monkeypatch.setattr(writes, "MOST_LINES", 2)
    timer = make_timer()
    await insert(mongodb, timer)
    for node in ("one", "two", "three"):
        line = make_attempt(timer, attempt=1, node=node)
        change = grown(timer, line)
        assert await mongodb.apply([change]) == [True]
        timer = change.new
        assert await mongodb.attempts(timer.id, None, 9) == [line]


async def test_lines_that_were_moved_for_a_timer_that_was_dropped_go_too(
    mongodb, database, monkeypatch
):
    """The change that wanted them moved loses, and the next purge takes them away."""
    monkeypatch.setattr(writes, "MOST_LINES", 4)
    timer = make_timer()
    await insert(mongodb, timer)
    timer, _ = await logged(mongodb, timer, 1)
    done = grown(timer, status=Status.COMPLETED, wake_at=None, updated_at=NOW)
    assert await mongodb.apply([done]) == [True]
    anew = grown(done.new, status=Status.PENDING, wake_at=NOW + 5)
    move = mongodb._opened.writes._move_lines

    async def move_and_drop(session, part):
        moved = await move(session, part)
        assert await mongodb.purge(ids.ALL_SHARDS, NOW + 1, 10) == 1
        return moved

    monkeypatch.setattr(mongodb._opened.writes, "_move_lines", move_and_drop)
    assert await mongodb.apply([anew]) == [False]
    assert await database["attempts"].count_documents({}) == 1
    assert await mongodb.purge(ids.ALL_SHARDS, NOW + 1, 10) == 0
    for name in ("timers", "attempts", "graves"):
        assert await database[name].count_documents({}) == 0
