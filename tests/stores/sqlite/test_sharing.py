"""One file, several users: processes that die, connections that write, instances side by side."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys

import pytest

from duetime import ids
from duetime.errors import StoreUnavailable
from duetime.stores import Insert
from duetime.stores.sqlite import file
from duetime.stores.sqlite.store import SqliteStore
from tests.factories import NOW, claim_of, insert, make_timer

WRITER = """
import asyncio, json, os, signal, sys
from duetime.stores import Insert
from duetime.stores.sqlite.store import SqliteStore
from tests.factories import claim_of, make_timer

async def main():
    store = SqliteStore(sys.argv[1])
    await store.migrate()
    acknowledged = {}

    async def write():
        timer = make_timer()
        await store.insert([Insert(timer)])
        acknowledged[timer.id] = 1
        await store.apply([claim_of(timer)])
        acknowledged[timer.id] = 2

    await asyncio.gather(*(write() for _ in range(100)))
    asyncio.gather(*(write() for _ in range(100)))  # these are under way when it dies
    await write()
    os.write(1, json.dumps(acknowledged).encode())
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.fixture
def acknowledged(database):
    """What a process was told to be written, right before it was killed."""
    command = [sys.executable, "-c", WRITER, str(database)]
    child = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    assert child.returncode == -signal.SIGKILL
    return json.loads(child.stdout)


async def test_a_killed_process_loses_nothing_acknowledged(acknowledged, database):
    """After kill -9, every write that was acknowledged is there, and the file is sound."""
    assert len(acknowledged) > 100
    store = SqliteStore(database)
    await store.migrate()
    stored = await store.get(list(acknowledged))
    assert all(timer is not None and timer.version >= acknowledged[timer.id] for timer in stored)
    assert await store._read(
        lambda connection: connection.execute("PRAGMA integrity_check").fetchall()
    ) == [("ok",)]
    await store.close()


async def test_two_instances_share_a_file(database):
    """Of two instances that claim the same timers at once, each timer goes to one."""
    one, two = SqliteStore(database), SqliteStore(database)
    await asyncio.gather(one.migrate(), two.migrate())
    timers = [make_timer() for _ in range(60)]
    await insert(one, *timers)
    assert await two.get([timer.id for timer in timers]) == timers
    answers = await asyncio.gather(
        *(one.apply([claim_of(timer, "one")]) for timer in timers),
        *(two.apply([claim_of(timer, "two")]) for timer in timers),
    )
    wins = [won for (won,) in answers]
    assert [first + second for first, second in zip(wins[:60], wins[60:], strict=True)] == [1] * 60
    rivals = [make_timer(timer_id="same") for _ in range(2)]
    answers = await asyncio.gather(one.insert([Insert(rivals[0])]), two.insert([Insert(rivals[1])]))
    assert sorted(answer is None for (answer,) in answers) == [False, True]
    await asyncio.gather(one.close(), two.close())


@pytest.fixture
def stranger(sqlite, database):
    """Another process's connection to the file."""
    connection = sqlite3.connect(database, isolation_level=None)
    yield connection
    connection.close()


async def test_reads_go_on_while_another_writes(sqlite, stranger):
    """An open write transaction of somebody else delays no reader."""
    timer = make_timer()
    await insert(sqlite, timer)
    stranger.execute("BEGIN IMMEDIATE")
    stranger.execute("UPDATE timers SET version = 99")
    assert await sqlite.get([timer.id]) == [timer]
    [line] = await sqlite.due(ids.ALL_SHARDS, None, NOW + 10**6, 10)
    assert (line.id, line.version) == (timer.id, timer.version)
    await sqlite.ping()
    stranger.execute("ROLLBACK")


async def test_a_write_waits_for_another_writer(sqlite, stranger):
    """A write that finds the file locked is done once the lock is gone."""
    stranger.execute("BEGIN IMMEDIATE")
    timer = make_timer()
    writing = asyncio.ensure_future(sqlite.insert([Insert(timer)]))
    assert await sqlite.get([timer.id]) == [None]
    stranger.execute("COMMIT")
    assert await writing == [None]


async def test_a_lock_that_stays_is_told(database, monkeypatch):
    """A file that is locked for too long is unavailable, and usable again afterwards."""
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.01)
    store = SqliteStore(database)
    await store.migrate()
    stranger = sqlite3.connect(database, isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    timer = make_timer()
    with pytest.raises(StoreUnavailable, match="locked"):
        await store.insert([Insert(timer)])
    stranger.execute("COMMIT")
    stranger.close()
    await insert(store, timer)
    await store.close()
