"""The writer: many calls to a commit, and no call harms another."""

import asyncio
import sqlite3
import threading

import pytest

from duetime.errors import StoreUnavailable
from duetime.stores import Change, Insert
from duetime.stores.sqlite.file import translate
from duetime.stores.sqlite.store import SqliteStore
from tests.factories import (
    NOW,
    claim_of,
    claimed,
    insert,
    key_of,
    make_attempt,
    make_event,
    make_spec,
    make_timer,
)

ERRORS = [
    error
    for error in vars(sqlite3).values()
    if isinstance(error, type) and issubclass(error, sqlite3.Error | sqlite3.Warning)
]


@pytest.mark.parametrize("error", [*ERRORS, OverflowError])
def test_every_error_of_the_engine_is_translated(error):
    """Whatever sqlite3 raises becomes StoreUnavailable, with the reason."""
    translated = translate(error("the reason"))
    assert isinstance(translated, StoreUnavailable)
    assert "the reason" in str(translated)
    assert isinstance(translated.__cause__, error)


def test_all_errors_of_the_engine_are_known():
    """The list above is not empty by accident."""
    assert {sqlite3.OperationalError, sqlite3.IntegrityError, sqlite3.DataError} <= set(ERRORS)


def test_a_bug_is_not_hidden():
    """An error of the program's own stays what it is."""
    error = KeyError("bug")
    assert translate(error) is error


class Gate:
    """Holds the writer inside a transaction until it is opened."""

    def __init__(self):
        self.entered = asyncio.Event()
        self.opened = threading.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self, connection):
        self._loop.call_soon_threadsafe(self.entered.set)
        assert self.opened.wait(30)


async def queued(store, *calls):
    """Hold the writer, queue the calls up, let it go, and return their answers or errors."""
    gate = Gate()
    held = asyncio.ensure_future(store._write(gate))
    await gate.entered.wait()
    waiting = [asyncio.ensure_future(call) for call in calls]
    await asyncio.sleep(0)  # each has put itself into the queue
    gate.opened.set()
    await held
    return await asyncio.gather(*waiting, return_exceptions=True)


def statements(store):
    """Collect what the writer runs from now on."""
    run = []
    store._writer._connection.set_trace_callback(run.append)
    return run


async def test_what_queued_up_shares_a_commit(sqlite):
    """Calls that wait while the writer is busy are written by one transaction."""
    run = statements(sqlite)
    timers = [make_timer() for _ in range(20)]
    answers = await queued(sqlite, *(sqlite.insert([Insert(timer)]) for timer in timers))
    assert answers == [[None]] * 20
    assert run.count("COMMIT") == 2  # the one that held the writer, and one for all the others
    assert sum(statement.startswith("INSERT INTO timers") for statement in run) == 1
    assert await sqlite.get([timer.id for timer in timers]) == timers


async def test_calls_of_different_kinds_keep_their_order_and_their_answers(sqlite):
    """Calls of the same kind are written as one, but not past a call of another kind."""
    first, second, third = make_timer(), make_timer(), make_timer()
    stale = make_timer()
    rival = make_timer(timer_id=first.timer_id, group=first.group)
    answers = await queued(
        sqlite,
        sqlite.insert([Insert(first), Insert(second)]),
        sqlite.insert([]),
        sqlite.insert([Insert(rival)]),
        sqlite.apply([Change(first, claimed(first))]),
        sqlite.apply([Change(stale, claimed(stale)), Change(second, claimed(second))]),
        sqlite.apply([Change(first, claimed(first))]),
        sqlite.insert([Insert(rival), Insert(third)]),
    )
    assert answers == [
        [None, None],
        [],
        [first],
        [True],
        [False, True],
        [False],
        [claimed(first), None],
    ]


async def test_one_failing_call_does_not_fail_its_neighbours(sqlite):
    """A call that the engine refuses fails alone, and nothing of it is left."""
    good, other, half = make_timer(), make_timer(), make_timer()
    too_big = make_timer(execute_at=2**70)
    answers = await queued(
        sqlite,
        sqlite.insert([Insert(good)]),
        sqlite.insert([Insert(half), Insert(too_big)]),
        sqlite.insert([Insert(other)]),
    )
    assert answers[0] == answers[2] == [None]
    assert isinstance(answers[1], StoreUnavailable)
    assert await sqlite.get([good.id, other.id, half.id]) == [good, other, None]


async def test_a_bug_in_a_call_is_raised_to_its_caller(sqlite):
    """An error of the program's own reaches whoever called, and nobody else."""

    def buggy(connection):
        raise KeyError("bug")

    timer = make_timer()
    answers = await queued(sqlite, sqlite._write(buggy), sqlite.insert([Insert(timer)]))
    assert isinstance(answers[0], KeyError)
    assert answers[1] == [None]


async def test_calls_are_written_in_order(sqlite):
    """Of calls that share a commit, the first comes first."""
    rivals = [make_timer(timer_id="same") for _ in range(3)]
    answers = await queued(sqlite, *(sqlite.insert([Insert(timer)]) for timer in rivals))
    assert answers == [[None], [rivals[0]], [rivals[0]]]


async def test_closing_finishes_what_is_queued(database):
    """Writes that were asked for before close are done, and answered."""
    store = SqliteStore(database)
    await store.migrate()
    gate = Gate()
    held = asyncio.ensure_future(store._write(gate))
    await gate.entered.wait()
    timer = make_timer()
    writing = asyncio.ensure_future(store.insert([Insert(timer)]))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    gate.opened.set()
    await closing
    await held
    assert await writing == [None]
    again = SqliteStore(database)
    await again.migrate()
    assert await again.get([timer.id]) == [timer]
    await again.close()


async def test_nobody_is_answered_before_the_commit(sqlite, database):
    """While the transaction is open, its calls wait, and nobody else sees their rows."""
    gate = Gate()
    timer = make_timer()
    held = asyncio.ensure_future(sqlite._write(gate))
    await gate.entered.wait()
    inserting = asyncio.ensure_future(sqlite.insert([Insert(timer)]))
    assert await sqlite.get([timer.id]) == [None]
    assert not inserting.done()
    gate.opened.set()
    await held
    assert await inserting == [None]
    assert await sqlite.get([timer.id]) == [timer]


async def test_a_nul_is_a_character_like_any_other(sqlite):
    """A key with a NUL in it is found, and is taken."""
    timer = make_timer(timer_id="a\0b")
    await insert(sqlite, timer, make_timer(timer_id="a\0c"), make_timer(timer_id="a"))
    assert await sqlite.get_by_key([key_of(timer)]) == [timer]
    assert await sqlite.insert([Insert(make_timer(timer_id="a\0b"))]) == [timer]


async def test_half_a_surrogate_pair_is_refused(sqlite):
    """Text that has no UTF-8 is refused, and the store goes on."""
    with pytest.raises(StoreUnavailable):
        await insert(sqlite, make_timer(timer_id="\ud800"))
    with pytest.raises(StoreUnavailable):
        await sqlite.get(["\ud800"])
    timer = make_timer(spec=make_spec(name="fine"), created_at=NOW)
    await insert(sqlite, timer)
    assert await sqlite.get([timer.id]) == [timer]


async def test_a_claim_writes_only_what_it_changes(sqlite):
    """A change that leaves the spec alone writes neither it nor the time it was asked for."""
    timers = [make_timer() for _ in range(300)]
    await insert(sqlite, *timers)
    run = statements(sqlite)
    assert all(await sqlite.apply([claim_of(timer) for timer in timers]))
    begin, update, commit = run
    assert (begin, commit) == ("BEGIN IMMEDIATE", "COMMIT")
    assert update.startswith("UPDATE timers SET version")
    columns = update[: update.index(" FROM (VALUES")]
    assert "spec" not in columns
    assert "execute_at" not in columns


async def test_a_batch_is_one_statement(sqlite):
    """Hundreds of rows, with their attempts and events, take one statement for each table."""
    timers = [make_timer() for _ in range(300)]
    run = statements(sqlite)
    await sqlite.insert([Insert(timer, (make_event(timer),)) for timer in timers])
    changes = [
        Change(timer, claimed(timer), make_attempt(timer), (make_event(timer),)) for timer in timers
    ]
    assert all(await sqlite.apply(changes))
    assert [statement.split("(")[0].split(" SET")[0].strip() for statement in run] == [
        "BEGIN IMMEDIATE",
        "INSERT INTO timers",
        "INSERT OR REPLACE INTO events",
        "COMMIT",
        "BEGIN IMMEDIATE",
        "UPDATE timers",
        "INSERT OR REPLACE INTO attempts",
        "INSERT OR REPLACE INTO events",
        "COMMIT",
    ]
