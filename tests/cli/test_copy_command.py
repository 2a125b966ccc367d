"""`duetime copy`: real databases, real processes, and every way to stop one."""

import asyncio
import os
import re
import signal
import sqlite3
from contextlib import asynccontextmanager

import pytest
from msgspec import Raw

from duetime.cli import copier
from duetime.moving.checksum import Tally
from duetime.stores import Change
from duetime.stores.opening import open_store
from duetime.timer import HttpCallback, Status
from tests.factories import insert, make_spec, make_timer, with_spec
from tests.moving.houses import INHABITANTS, furnished, holdings, inhabited
from tests.ports import free_port
from tests.servers.kinds import DATABASES
from tests.system.service import ServiceProcess
from tests.waiting import eventually

pytestmark = pytest.mark.slow  # they start processes

FROM = "sqlite:///from.db"
TO = "sqlite:///to.db"
DAY = 86_400_000
FAR_AHEAD = 4_000_000_000_000
AGAIN = "The same command goes on where this one stopped."


class House:
    """A database, opened for a moment."""

    def __init__(self, url):
        self._store = open_store(url)

    async def __aenter__(self):
        await self._store.migrate()
        return self._store

    async def __aexit__(self, *_):
        await self._store.close()


async def fill(url, count):
    async with House(url) as store:
        return await furnished(store, count)


async def inhabit(url, count):
    async with House(url) as store:
        await inhabited(store, count)


async def make(url):
    async with House(url):
        pass


async def contents(url):
    async with House(url) as store:
        return await holdings(store)


def last_line(text):
    return text.splitlines()[-1]


def test_a_file_is_copied_into_another(run):
    """The last line says what was copied, and that both sides are the same."""
    inserts = asyncio.run(fill(FROM, 1_500))
    ended = run("copy", FROM, TO)
    assert ended.code == 0, ended.err
    attempts = sum(len(each.attempts) for each in inserts)
    events = sum(len(each.events) for each in inserts)
    assert re.fullmatch(
        rf"copied 1,500 timers, {attempts:,} attempts, {events:,} events, 1 record, 0 audit lines; "
        r"both sides have the same checksum [0-9a-f]{32}\n",
        ended.out,
    )
    assert asyncio.run(contents(TO)) == asyncio.run(contents(FROM))


@pytest.mark.promise("whole-copy")
def test_tenants_and_their_audit_come_along(run):
    """With their keys and groups; the last line counts them."""
    asyncio.run(fill(FROM, 100))
    asyncio.run(inhabit(FROM, 700))
    ended = run("copy", FROM, TO)
    assert ended.code == 0, ended.err
    records = 1 + len(INHABITANTS)
    assert f" events, {records} records, 2,100 audit lines; both sides have the same" in ended.out
    assert asyncio.run(contents(TO)) == asyncio.run(contents(FROM))


@pytest.mark.parametrize(
    ("words", "keep_for"),
    [([], 90 * DAY), (["--audit-retention", "7d"], 7 * DAY), (["--audit-retention=never"], None)],
)
def test_lines_are_kept_for_as_long_as_the_setting_says(run, monkeypatch, words, keep_for):
    """It is that of the nodes."""
    asked = []
    monkeypatch.setattr(copier, "run_copy", lambda *args: asked.append(args) or 0)
    assert run("copy", FROM, TO, *words).code == 0
    assert asked == [(FROM, TO, keep_for)]


def test_a_setting_that_is_wrong_is_told(run, monkeypatch):
    """Before anything is opened."""
    monkeypatch.setenv("AUDIT_RETENTION", "soon")
    ended = run("copy", FROM, TO)
    assert ended.code == 2
    assert ended.err.startswith("duetime: AUDIT_RETENTION: ")


def test_what_was_dropped_meanwhile_is_told():
    """Then there is one checksum to tell."""
    assert copier.summary(Tally(timers=1, lines=2), 3) == (
        "copied 1 timer, 0 attempts, 0 events, 0 records, 2 audit lines; some was dropped since; "
        f"TO's checksum is {'0' * 32}"
    )


def test_the_source_stays_as_it_is(run, tmp_path):
    """A copy changes no byte of its source."""
    asyncio.run(fill(FROM, 200))
    before = (tmp_path / "from.db").read_bytes()
    assert run("copy", FROM, TO).code == 0
    assert (tmp_path / "from.db").read_bytes() == before


@pytest.mark.promise("whole-copy")
@pytest.mark.slow
@pytest.mark.parametrize("engine", DATABASES)
async def test_there_and_back_is_the_same(spawn, fresh_database, engine):
    """What goes from SQLite to an engine and back is the same; URLs are in the environment only."""
    url = await fresh_database(engine)
    await fill(FROM, 600)
    await inhabit(FROM, 400)
    lines = []
    for variables in ({"COPY_FROM": FROM, "COPY_TO": url}, {"COPY_FROM": url, "COPY_TO": TO}):
        process = await asyncio.to_thread(
            spawn, "copy", "-", "-", AUDIT_RETENTION="never", **variables
        )
        out, err = await asyncio.to_thread(process.communicate, timeout=120)
        assert process.returncode == 0, err
        lines.append(out)
    assert lines[0] == lines[1]
    assert await contents(FROM) == await contents(TO) == await contents(url)


@pytest.mark.slow
def test_a_body_of_8_mib_is_copied(run):
    """And several of them, among small ones."""
    payload = Raw(b'"' + b"x" * (8 * 1024 * 1024 - 2) + b'"')
    spec = make_spec(callback=HttpCallback(url="https://example.com", payload=payload))
    timers = [make_timer(spec=spec) for _ in range(3)] + [make_timer() for _ in range(20)]

    async def store_them():
        async with House(FROM) as store:
            await insert(store, *timers)

    asyncio.run(store_them())
    assert run("copy", FROM, TO).out.startswith("copied 23 timers, 0 attempts")
    assert asyncio.run(contents(TO)) == asyncio.run(contents(FROM))


# Stopped ---------------------------------------------------------------------------------------

STOPPING = """
CREATE TRIGGER stopping BEFORE INSERT ON timers WHEN (SELECT count(*) FROM timers) >= 1000
BEGIN SELECT RAISE(ABORT, 'no room on the disk'); END
"""


def on_target(statement):
    connection = sqlite3.connect("to.db")
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.fixture
def stuck(run, spawn):
    """A copy of 1,500 timers that cannot write more than 1,000 of them, and tries again."""
    asyncio.run(fill(FROM, 1_500))
    assert run("migrate", "--database-url", TO).code == 0
    on_target(STOPPING)
    process = spawn("copy", FROM, TO)
    assert "TO: SQLite: no room on the disk; trying again" in process.stderr.readline()
    return process


@pytest.mark.promise("whole-copy")
def test_a_copy_that_was_killed_is_resumed(stuck, run):
    """Kill -9 in the middle, and the same command again: all is there, and the same."""
    stuck.kill()
    stuck.communicate(timeout=10)
    assert stuck.returncode == -signal.SIGKILL
    assert len(asyncio.run(contents(TO))[0]) == 1_000
    on_target("DROP TRIGGER stopping")
    ended = run("copy", FROM, TO)
    assert ended.code == 0, ended.err
    assert "timers that are there already" in ended.err
    assert ended.out.startswith("copied 1,500 timers, ")
    assert asyncio.run(contents(TO)) == asyncio.run(contents(FROM))


def test_no_node_starts_in_a_house_that_is_half_full(stuck, spawn, monkeypatch):
    """It would fire what has come already, and change what is still to be compared."""
    stuck.kill()
    stuck.communicate(timeout=10)
    monkeypatch.setenv("API_KEY", "k" * 32)
    node = spawn("serve", "--database-url", TO, "--port", str(free_port()))
    _, err = node.communicate(timeout=20)
    assert node.returncode == 2
    assert "a copy into this database was begun and has not been finished" in err


def test_ctrl_c_stops_cleanly(stuck, run):
    """It says how to go on."""
    stuck.send_signal(signal.SIGINT)
    out, err = stuck.communicate(timeout=20)
    assert (stuck.returncode, out) == (130, "")
    assert last_line(err) == AGAIN
    assert "Traceback" not in err
    on_target("DROP TRIGGER stopping")
    assert run("copy", FROM, TO).code == 0


def test_a_timer_changed_meanwhile_is_a_conflict(stuck, run):
    """It is named, and stays as it is."""
    stuck.kill()
    stuck.communicate(timeout=10)
    on_target("DROP TRIGGER stopping")

    async def change():
        async with House(TO) as store:
            timer = (await store.scan(None, 1_000))[600]
            await store.apply([Change(timer, with_spec(timer, name="changed"))])
            return timer.id

    changed = asyncio.run(change())
    ended = run("copy", FROM, TO)
    assert ended.code == 5
    assert f"{changed} differs in the target" in ended.err
    assert ended.out == ""


# Refused ---------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_running_node_is_refused(spawn, tmp_path):
    """By name, with its process; and once it has stopped, nothing is in the way."""
    node = ServiceProcess(tmp_path)
    await node.start()
    try:
        process = await asyncio.to_thread(spawn, "copy", "sqlite:///duetime.db", TO)
        out, err = await asyncio.to_thread(process.communicate, timeout=60)
        assert (process.returncode, out) == (1, "")
        assert re.search(rf"duetime: FROM: the node \S+ \(process {node.pid} on ", err)
        assert last_line(err) == AGAIN
        assert await node.stop() == 0
        process = await asyncio.to_thread(spawn, "copy", "sqlite:///duetime.db", TO)
        out, err = await asyncio.to_thread(process.communicate, timeout=60)
        assert process.returncode == 0, err
        assert "nodes" not in err
    finally:
        await node.end_if_running()


@asynccontextmanager
async def slow_receiver():
    """A receiver that has had a callback, and answers it when it is told to; its port."""
    arrived, answer = asyncio.Event(), asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        await answer.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], arrived, answer


@pytest.mark.slow
async def test_a_node_that_still_stops_is_waited_for(spawn, tmp_path):
    """What it has under way ends before anything is copied."""
    node = ServiceProcess(tmp_path)
    await node.start()
    try:
        async with slow_receiver() as (port, arrived, answer):
            callback = {"type": "http", "url": f"http://127.0.0.1:{port}/"}
            made = await node.call("POST", "/timers", {"delay": "0s", "callback": callback})
            await arrived.wait()
            os.kill(node.pid, signal.SIGTERM)
            async with House("sqlite:///duetime.db") as store:

                async def is_leaving():
                    return not await store.records("node")

                await eventually(is_leaving, "the node to leave")
            process = await asyncio.to_thread(spawn, "copy", "sqlite:///duetime.db", TO)
            line = await asyncio.to_thread(process.stderr.readline)
            assert line == "there are records of nodes: watching for 35 s whether they run\n"
            answer.set()
            assert await node.ended() == 0
            _, err = await asyncio.to_thread(process.communicate, timeout=30)
            assert process.returncode == 0, err
    finally:
        await node.end_if_running()
    [timer] = (await contents(TO))[0]
    assert (timer.id, timer.status) == (made.data["id"], Status.COMPLETED)


@pytest.mark.slow
async def test_a_crashed_node_is_no_obstacle(spawn, tmp_path):
    """Its record is watched for its time, and what it wrote last is copied too."""
    node = ServiceProcess(tmp_path, CLAIM_TTL="3s")
    await node.start()
    timers = [make_timer(execute_at=FAR_AHEAD) for _ in range(50)]
    try:
        async with House("sqlite:///duetime.db") as store:
            await insert(store, *timers)
    finally:
        await node.kill()
    process = await asyncio.to_thread(spawn, "copy", "sqlite:///duetime.db", TO)
    _, err = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 0, err
    assert err.startswith("there are records of nodes: watching for 3 s whether they run\n")
    assert {timer.id for timer in (await contents(TO))[0]} == {timer.id for timer in timers}


SAME = "duetime: FROM and TO are the same database\n"


@pytest.mark.parametrize("alias", ["sqlite:///./from.db", "sqlite:///soft.db"])
def test_the_same_file_twice_is_refused(alias, run, tmp_path):
    """A file cannot be copied into itself, whatever it is called."""
    asyncio.run(make(FROM))
    (tmp_path / "soft.db").symlink_to("from.db")
    ended = run("copy", FROM, alias)
    assert (ended.code, ended.err) == (2, SAME)


async def test_the_same_schema_twice_is_refused(spawn, fresh_database):
    """Also where the addresses do not show it."""
    url = await fresh_database("postgres-18")
    await make(url)
    process = await asyncio.to_thread(spawn, "copy", url, f"{url}&sslmode=prefer")
    assert await asyncio.to_thread(process.communicate, timeout=60) == ("", SAME)
    assert process.returncode == 2
    async with House(url) as store:
        assert await store.records("copy") == []


def test_a_target_with_timers_is_refused(run):
    """It is left as it is."""
    asyncio.run(fill(FROM, 10))
    asyncio.run(fill(TO, 5))
    before = asyncio.run(contents(TO))
    ended = run("copy", FROM, TO)
    assert ended.code == 2
    assert ended.err.startswith("duetime: TO: there are timers in it")
    assert asyncio.run(contents(TO)) == before


def test_a_target_that_is_lived_in_is_refused(run):
    """So is one that has tenants and no timers."""
    asyncio.run(fill(FROM, 10))
    asyncio.run(inhabit(TO, 5))
    before = asyncio.run(contents(TO))
    ended = run("copy", FROM, TO)
    assert ended.code == 2
    assert ended.err.startswith("duetime: TO: there are tenants, keys, groups or lines of an audit")
    assert asyncio.run(contents(TO)) == before


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("sqlite:///nothing.db", TO, "FROM: there is no database nothing.db"),
        ("-", TO, "FROM: name a database, or set COPY_FROM"),
        (FROM, "-", "TO: name a database, or set COPY_TO"),
        ("memory://", TO, "FROM: what memory:// holds dies with its process"),
        ("nosql://ann:s3cret@h/d", TO, "FROM: no store for nosql://"),
        (FROM, "postgresql://ann:s3cret@h:port/d", "TO: a PostgreSQL URL looks like"),
    ],
)
def test_what_cannot_be_is_told(run, tmp_path, source, target, message):
    """With the side that it is about, without a password, and nothing is made."""
    if source == FROM:
        asyncio.run(make(FROM))
    ended = run("copy", source, target)
    assert ended.code == 2
    assert ended.err.startswith(f"duetime: {message}")
    assert "s3cret" not in ended.err
    assert not (tmp_path / "to.db").exists()
