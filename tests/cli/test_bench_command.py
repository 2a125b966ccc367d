"""`duetime bench`: real processes, small sizes, and every way to refuse or to stop it."""

import asyncio
import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from duetime.benching.failures import BrokenPromise
from duetime.cli import bench_store, bencher
from duetime.cli.bench_store import borrowed, folder_beside
from duetime.cli.bencher import ahead_of, bench_settings
from duetime.clock import SystemClock
from duetime.config import load_settings
from duetime.engine.members import NODE_KIND
from duetime.errors import ConfigurationError
from duetime.layout import agree_on_shards
from duetime.stores import Record
from duetime.stores.opening import open_store
from tests.factories import insert, make_spec, make_timer
from tests.waiting import PATIENCE

SMALL = ["--timers", "60", "--rate", "40", "--seconds", "1", "--max-rate", "40"]
STORE = "sqlite:///mine.db"
OURS = "http://127.0.0.1:4711/hook"


async def filled(url, *timers, records=()):
    store = open_store(url)
    await store.migrate()
    await insert(store, *timers)
    for record in records:
        await store.put_record(None, record)
    await store.close()


def rows(path, table):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


@pytest.fixture
def wishes(monkeypatch):
    """Keeps what would have been measured."""
    asked = []
    monkeypatch.setattr(bencher, "run_bench", lambda *args: asked.append(args) or 0)
    return asked


@pytest.mark.slow
def test_a_machine_is_measured(run, tmp_path):
    """All figures are told, in a table, in a file and in a picture; the database is gone."""
    ended = run("bench", *SMALL, "--json", "figures.json")
    assert ended.code == 0, ended.err
    assert "creates, one by one on 64 connections" in ended.out
    assert "timers were fired: none early, lost or doubled." in ended.out
    assert ended.out.splitlines()[-1].startswith("This machine ")
    assert ended.err.endswith("written to duetime-bench.svg\nwritten to figures.json\n")
    assert {each.name for each in tmp_path.iterdir()} == {"figures.json", "duetime-bench.svg"}
    figures = json.loads(Path("figures.json").read_text())
    assert figures["burst"]["timers"] == sum(figures["burst"]["arrived"]) == 60
    lateness = figures["steady"]["lateness"]
    assert sum(bucket["count"] for bucket in lateness) == figures["steady"]["timers"] == 40
    assert figures["limit"]["rate"] <= 40
    steps = sum(round(step["rate"] * step["seconds"]) for step in figures["steps"])
    assert figures["timers"] == 60 + 40 + steps
    root = ET.fromstring(Path("duetime-bench.svg").read_text())
    bars = [each for each in root.iter() if each.get("class") == "bar"]
    assert len(bars) == len(lateness) + len(figures["burst"]["arrived"])


@pytest.mark.slow
def test_ctrl_c_leaves_neither_processes_nor_files(spawn, tmp_path):
    """Also in the middle of a load."""
    bench = spawn("bench", "--timers", "100000")
    while "creating" not in bench.stderr.readline():
        assert bench.poll() is None
    children = Path(f"/proc/{bench.pid}/task/{bench.pid}/children")
    if not children.exists():
        pytest.skip("this system does not tell who is whose child")
    pids = [int(each) for each in children.read_text().split()]
    assert len(pids) == 3
    assert next(each.name for each in tmp_path.iterdir()).startswith("duetime-bench-")
    bench.send_signal(signal.SIGINT)
    bench.communicate(timeout=PATIENCE)
    assert bench.returncode == 130
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert list(tmp_path.iterdir()) == []


def test_a_database_with_timers_is_refused(run):
    """And is left as it is."""
    asyncio.run(filled(STORE, make_timer()))
    ended = run("bench", "--store", STORE)
    assert ended.code == 2
    assert "--store: there are timers in this database: name an empty database" in ended.err
    assert rows("mine.db", "timers") == 1


def test_a_database_with_a_group_is_refused(run):
    """What was set there would be measured, too."""
    asyncio.run(filled(STORE, records=[Record(kind="group", name="carts")]))
    ended = run("bench", "--store", STORE)
    assert ended.code == 2
    assert "there is a group in it" in ended.err


def test_a_database_with_a_live_node_is_refused(run):
    """A node that moves while it is watched is named."""

    async def watched():
        await filled(STORE)
        store = open_store(STORE)
        await store.migrate()
        old = Record(kind=NODE_KIND, name="web-1", data=b'{"ttl":60000}')
        await store.put_record(None, old)

        def say(_):
            beat = Record(kind=NODE_KIND, name="web-1", version=2, data=old.data)
            beating.append(asyncio.create_task(store.put_record(old, beat)))

        beating = []
        settings = load_settings({"database_url": STORE}, {})
        with pytest.raises(ConfigurationError, match=r"the node web-1 is running.*name an empty"):
            async with borrowed(settings, SystemClock(), say):
                raise AssertionError
        await store.close()

    asyncio.run(watched())


def test_a_database_that_was_lent_is_given_back_empty():
    """What the benchmark has made is gone; what somebody else has made meanwhile stays."""
    settings = load_settings({"database_url": STORE, "outbox": "on"}, {})

    async def lent():
        async with borrowed(settings, SystemClock(), lambda _: None):
            ours = [make_timer(spec=_spec(OURS)) for _ in range(3)]
            await filled(STORE, *ours, make_timer(spec=_spec("https://example.com/")))
            store = open_store(STORE)
            await store.migrate()
            await agree_on_shards(store)
            await store.close()

    asyncio.run(lent())
    assert rows("mine.db", "timers") == 1
    assert rows("mine.db", "records") == 0


def _spec(url):
    spec = make_spec()
    return msgspec.structs.replace(spec, callback=msgspec.structs.replace(spec.callback, url=url))


def test_memory_cannot_be_lent(run):
    """Nobody could look into it."""
    ended = run("bench", "--store", "memory://")
    assert ended.code == 2
    assert ended.err.startswith("duetime: --store: what memory:// holds dies with its process")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--timers", "0"], "--timers: must be a whole number from 1 to 1,000,000, not '0'"),
        (["--rate", "many"], "--rate: must be a whole number"),
        (["--seconds", "-1"], "--seconds: must be a whole number"),
        (["--max-rate", "100"], "--max-rate: must be at least 200, which is --rate"),
        (["--svg", "nowhere/x.svg"], "--svg: nowhere/x.svg is no place for a file"),
        (["--json", "."], "--json: . is no place for a file"),
        (["--store", "-"], "--store: name a database, or set BENCH_STORE"),
        (["--store", "nosql://x"], "no store for nosql://"),
        (["--workers", "0"], "--workers: must be a whole number from 1 to 64"),
    ],
)
def test_what_is_wrong_is_told_by_its_flag(run, words, told):
    """Before anything is started."""
    ended = run("bench", *words)
    assert ended.code == 2
    assert told in ended.err


def test_sizes_come_from_the_flags(run, wishes, monkeypatch):
    """Those of --quick where nothing else is said; the store may come from the environment."""
    monkeypatch.setenv("BENCH_STORE", STORE)
    assert run("bench", "--quick", "--timers", "7", "--workers", "3", "--store", "-").code == 0
    ((settings, asked),) = wishes
    assert (settings.workers, settings.database_url) == (3, STORE)
    assert asked.is_named
    assert (asked.sizes.timers, asked.sizes.seconds, asked.sizes.step_seconds) == (7, 5, 2)


def test_a_broken_promise_is_told(run, monkeypatch):
    """It ends with 1, and says what was broken."""

    async def broken(*_):
        raise BrokenPromise("1 of 60 lost")

    monkeypatch.setattr(bencher, "_measured", broken)
    ended = run("bench", *SMALL)
    assert ended.code == 1
    assert "duetime: a promise was broken: 1 of 60 lost" in ended.err


def test_timers_that_are_missing_in_the_end_are_lost(run, monkeypatch):
    """What is not due must still be there."""

    async def measured(*_):
        return bencher._Measured(None, 3)

    monkeypatch.setattr(bencher, "_measured", measured)
    ended = run("bench", *SMALL)
    assert ended.code == 1
    assert "0 of 3 timers that are not due are left" in ended.err


def test_the_node_talks_to_nobody_else():
    """Not to NATS, which could bring timers of a user's, nor through a proxy."""
    env = {"NATS_URL": "nats://h", "NATS_COMMANDS": "keys", "EGRESS_PROXY": "http://p:1"}
    env |= {"API_KEY": "k" * 40, "MIN_DELAY": "1m", "SQLITE_SYNCHRONOUS": "normal"}
    settings = bench_settings(load_settings({}, env))
    assert (settings.nats_url, settings.nats_commands, settings.egress_proxy) == ((), "off", None)
    assert settings.host == "127.0.0.1"
    assert settings.api_key != "k" * 40
    assert (settings.min_delay, settings.sqlite_synchronous) == (0, "normal")


@pytest.mark.parametrize(
    ("url", "workers", "ahead"),
    [(STORE, 1, 500), (STORE, 2, 6_500), ("postgresql://u:p@h/d", 2, 500)],
)
def test_timers_are_made_before_other_workers_have_looked(url, workers, ahead):
    """Where they hear nothing of each other; else it is their polls that would be measured."""
    assert ahead_of(load_settings({"database_url": url, "workers": workers}, {})) == ahead


def test_the_file_lies_on_the_disk_of_the_database(tmp_path):
    """Beside it, or in the nearest folder that is there; a server has no folder here."""
    (tmp_path / "data").mkdir()
    assert folder_beside("sqlite:///data/duetime.db") == tmp_path / "data"
    assert folder_beside(f"sqlite:///{tmp_path}/no/where/x.db?a=b") == tmp_path
    assert folder_beside("postgresql://u:p@h/d") == tmp_path


def test_a_folder_in_memory_is_told(monkeypatch):
    """The figures are those of a disk that never waits."""
    monkeypatch.setattr(bench_store, "disk_of", lambda _: bench_store.Disk("none", "tmpfs"))
    settings = load_settings({"database_url": STORE}, {})
    assert "which is memory (tmpfs) and no disk" in bench_store.described(settings)


def test_a_password_is_never_shown():
    """A server is told by its address."""
    settings = load_settings({"database_url": "postgresql://u:hunter2@h/d"}, {})
    assert bench_store.described(settings) == "postgresql://u:***@h/d"
    assert bench_store.waits_for(settings) == "its server"
