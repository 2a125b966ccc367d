"""Lines of the audit: where they lie, what is asked for them, and when they end."""

import asyncio

import pytest
from cassandra import OperationTimedOut

from duetime.errors import StoreUnavailable
from tests.factories import NOW, make_line

HOUR = 3_600_000
DAY = 24 * HOUR


class Asked:
    """What is asked of the servers for lines."""

    def __init__(self, store, monkeypatch):
        self.statements = []
        session = store._rooms.lines._session
        self._run, self._run_batch = session.run, session.run_batch
        monkeypatch.setattr(session, "run", self.run)
        monkeypatch.setattr(session, "run_batch", self.run_batch)

    async def run(self, statement, values=()):
        self.statements.append(statement)
        return await self._run(statement, values)

    async def run_batch(self, steps):
        self.statements.append(steps[0][0])
        return await self._run_batch(steps)

    def count(self):
        """How much that was, since it was last asked."""
        asked, self.statements = self.statements, []
        return len(asked)


async def test_they_end_by_themselves(cassandra, somebody):
    """A line after so long, and its hour a day later; what is kept for ever has no end."""
    await cassandra.write_lines([make_line()], DAY)
    [(left,)] = somebody.execute("SELECT TTL(body) FROM lines")
    assert DAY // 1000 - 60 < left <= DAY // 1000
    [(hour, kept_for)] = somebody.execute("SELECT hour, kept_for FROM hours")
    assert (hour, kept_for) == (NOW // HOUR, DAY // 1000)
    for keep_for in (None, 30 * 365 * DAY):  # which is more than Cassandra can say
        await cassandra.write_lines([make_line(tenant="other")], keep_for)
    rows = somebody.execute(
        "SELECT TTL(body) FROM lines WHERE tenant = 'other' AND hour = %s", [hour]
    )
    assert [left for (left,) in rows] == [None, None]
    assert await cassandra.drop_lines(NOW * 2, 9) == 0


async def test_who_keeps_them_shortly_does_not_end_the_hour(cassandra):
    """The hour of lines that are kept is found after that of others has ended."""
    kept, ended = make_line(), make_line()
    await cassandra.write_lines([kept], None)
    cassandra._rooms.lines._known.clear()
    await cassandra.write_lines([ended], 1)
    hours = [
        hours async for hours in cassandra._rooms.lines._hours("default", None, descending=True)
    ]
    assert hours == [[NOW // HOUR]]
    await asyncio.sleep(1.1)
    assert await cassandra.lines("default", None, 9, descending=True) == [kept]


async def test_what_many_cost(cassandra, monkeypatch):
    """They go by the batch; an hour is listed once; nobody looks for hours that have none."""
    await cassandra.write_lines([make_line(at=NOW - 9_000 * DAY)], None)
    asked = Asked(cassandra, monkeypatch)
    await cassandra.write_lines([make_line() for _ in range(1_000)], None)
    assert asked.count() == 1 + 5
    await cassandra.write_lines([make_line()], None)
    assert asked.count() == 1
    assert len(await cassandra.lines("default", None, 100, descending=True)) == 100
    assert asked.count() == 2
    assert len(await cassandra.lines("default", None, 1_100, descending=False)) == 1_002
    assert asked.count() == 4  # the hours, both of them one after the other, and no more hours


@pytest.mark.parametrize("descending", [False, True])
async def test_hours_with_few_lines_are_read_together(cassandra, monkeypatch, descending):
    """Also where the list of them is longer than what is read of it at once."""
    monkeypatch.setattr("duetime.stores.cassandra.lines._LISTED", 20)
    lines = [make_line(at=NOW + number * HOUR) for number in range(50)]
    await cassandra.write_lines(lines, None)
    asked = Asked(cassandra, monkeypatch)
    found = await cassandra.lines("default", None, 99, descending=descending)
    assert found == (lines[::-1] if descending else lines)
    assert asked.count() < 16


async def test_an_answer_is_lost(cassandra, monkeypatch):
    """Whoever hears of it writes them again, and they are there once."""
    line = make_line()
    session = cassandra._rooms.lines._session
    run_batch = session.run_batch

    async def losing(steps):
        await run_batch(steps)
        raise OperationTimedOut

    with monkeypatch.context() as while_lost:
        while_lost.setattr(session, "run_batch", losing)
        with pytest.raises(StoreUnavailable, match="no answer in time"):
            await cassandra.write_lines([line], None)
    await cassandra.write_lines([line], None)
    assert await cassandra.lines("default", None, 9, descending=False) == [line]


async def test_a_close_waits_for_them(cassandra, open_store, cassandra_url):
    """Who gives up waiting leaves a whole write."""
    lines = [make_line() for _ in range(3)]
    writing = asyncio.create_task(cassandra.write_lines(lines, None))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait([writing])
    await cassandra.close()
    other = await open_store(cassandra_url)
    assert len(await other.lines("default", None, 9, descending=True)) == 3
