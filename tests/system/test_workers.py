"""`serve --workers N`: one port, N nodes, and a supervisor that keeps them and ends them."""

import asyncio
import json
import os
import random
import re
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from duetime.cli.receiver import Arrival, running_receiver
from duetime.client import AsyncClient
from tests.servers.processes import freeze
from tests.system.ledger import Ledger, put_under_load
from tests.system.service import API_KEY, ServiceProcess, eventually, running_service

pytestmark = pytest.mark.slow

PLACES = 8
_READY = re.compile(r"worker (\d+) \(pid (\d+)\) takes requests")


class Workers:
    """The workers of a service, as its log tells of them."""

    def __init__(self, service: ServiceProcess) -> None:
        self._service = service

    @property
    def started(self) -> list[tuple[int, int]]:
        """Number and process of each worker that became ready, in that order."""
        found = _READY.findall(self._service.log.read_text())
        return [(int(number), int(pid)) for number, pid in found]

    @property
    def pids(self) -> dict[int, int]:
        """Who has each number now."""
        return dict(self.started)

    async def said(self, text: str, times: int = 1) -> None:
        async def look() -> bool:
            return self._service.log.read_text().count(text) >= times

        await eventually(look, f"{self._service.log} to say {text!r}")

    async def ready(self, count: int) -> None:
        """Wait until so many have become ready, counted from the start of the service."""

        async def look() -> bool:
            return len(self.started) >= count

        await eventually(look, f"{count} workers to have become ready")

    async def gone(self) -> None:
        """Wait until no process is left of all that were ever started."""

        async def look() -> bool:
            return all(is_gone(pid) for _, pid in self.started)

        await eventually(look, "every worker to be gone")


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")  # one that nobody has asked for yet is gone as well
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"


@asynccontextmanager
async def running_workers(
    folder: Path, **settings: str
) -> AsyncIterator[tuple[ServiceProcess, Workers]]:
    """Two workers that are ready; they must stop cleanly, unless the test ended them already."""
    settings = {"WORKERS": "2", "CLAIM_TTL": "1s", "DRAIN_TIMEOUT": "10s", **settings}
    started: list[tuple[int, int]] = []
    try:
        async with running_service(folder, **settings) as service:
            workers = Workers(service)
            await workers.said("listens on")
            try:
                yield service, workers
            finally:
                started = workers.started
                signal_all(started, signal.SIGCONT)
    finally:
        signal_all(started, signal.SIGKILL)  # leave nothing behind, however a test ended


def signal_all(started: list[tuple[int, int]], number: signal.Signals) -> None:
    for _, pid in started:
        if not is_gone(pid):
            os.kill(pid, number)


async def answers(service: ServiceProcess) -> bool:
    return (await service.call("GET", "/healthz")).status == 200


def make_newer(database: Path) -> None:
    """Leave the file as a later version of Duetime would: no new worker starts on it."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("INSERT INTO schema_history VALUES (999, 'from the future')")


async def under_way(service: ServiceProcess, arrivals: list[Arrival], url: str) -> None:
    """Make timers, as many as a receiver has places for, and wait until all have arrived there."""
    for _ in range(PLACES):
        body = {"delay": "0s", "callback": {"type": "http", "url": url, "timeout": "5m"}}
        assert (await service.call("POST", "/timers", body)).status in (200, 201)

    async def look() -> bool:
        return len(arrivals) >= PLACES

    await eventually(look, "callbacks to be under way")


async def test_every_worker_serves_the_port(tmp_path: Path):
    """While the others stand still, each answers alone; each is a node of its own."""
    async with running_workers(tmp_path, WORKERS="3") as (service, workers):
        assert sorted(workers.pids) == [1, 2, 3]
        for alone in workers.pids.values():
            others = set(workers.pids.values()) - {alone}
            for pid in others:
                freeze(pid)
            for _ in range(5):
                assert await answers(service)
            for pid in others:
                os.kill(pid, signal.SIGCONT)
        with closing(sqlite3.connect(service.database)) as connection:
            names = connection.execute("SELECT name FROM records WHERE kind = 'node'").fetchall()
        assert {int(name.split("-")[-2]) for (name,) in names} == set(workers.pids.values())
        await workers.said("worker 3: nodes alive: 3")


async def test_files_in_the_working_directory_are_no_modules(tmp_path: Path):
    """Not for the workers either: whoever may write there must not run code by it."""
    (tmp_path / "msgspec.py").write_text("raise SystemExit('imported from here')")
    async with running_workers(tmp_path) as (service, _):
        assert await answers(service)


async def test_json_logs_name_the_worker(tmp_path: Path):
    """Each line of a worker has its number, and those of the supervisor have none."""
    async with running_workers(tmp_path, LOG_FORMAT="json") as (service, workers):
        await workers.said("nodes alive: 2", times=2)
        lines = [json.loads(line) for line in service.log.read_text().splitlines()]
        assert {line.get("worker") for line in lines} == {None, 1, 2}


async def test_a_killed_worker_is_replaced(tmp_path: Path):
    """The port answers meanwhile, and the new one takes its part."""
    async with running_workers(tmp_path) as (service, workers):
        killed, other = workers.pids[1], workers.pids[2]
        os.kill(killed, signal.SIGKILL)
        await workers.said(f"worker 1 (pid {killed}) was ended by SIGKILL")
        for _ in range(10):
            assert await answers(service)
        await workers.ready(3)
        assert workers.pids[1] != killed
        freeze(other)
        assert await answers(service)


async def test_a_crash_loop_is_reported_and_ends_all(tmp_path: Path):
    """Five early deaths of one worker: the others drain, and the exit code is 1."""
    async with running_workers(tmp_path) as (service, workers):
        for deaths in range(1, 6):
            os.kill(workers.pids[1], signal.SIGKILL)
            if deaths < 5:
                await workers.ready(2 + deaths)
        assert await service.ended() == 1
        await workers.gone()
        log = service.log.read_text()
        assert "number 5 in a row that did not last 30 s, so all workers are stopped" in log
        assert "worker 2: stopped" in log


async def test_a_worker_that_finds_wrong_settings_is_not_replaced(tmp_path: Path):
    """It says what is wrong, all are stopped, and the exit code is that of wrong settings."""
    async with running_workers(tmp_path) as (service, workers):
        make_newer(service.database)
        os.kill(workers.pids[1], signal.SIGKILL)
        assert await service.ended() == 2
        await workers.gone()
        log = service.log.read_text()
        assert log.count("made by a newer Duetime") == 1
        assert "ended with exit code 2" in log


async def ctrl_c(service: ServiceProcess, _: Workers) -> None:
    os.killpg(service.pid, signal.SIGINT)


async def sigterm(service: ServiceProcess, _: Workers) -> None:
    os.kill(service.pid, signal.SIGTERM)


async def sigterm_to_all(service: ServiceProcess, workers: Workers) -> None:
    for pid in (*workers.pids.values(), service.pid, *workers.pids.values()):
        os.kill(pid, signal.SIGTERM)


@pytest.mark.promise("clean-stop")
@pytest.mark.parametrize("stop", [ctrl_c, sigterm, sigterm_to_all])
async def test_stopping_drains_every_worker(tmp_path: Path, stop):
    """Callbacks under way end, each is made once, no process is left, and the exit code is 0."""
    arrivals: list[Arrival] = []
    async with (
        running_receiver("127.0.0.1", 0, arrivals.append, delay=1000) as port,
        running_workers(tmp_path) as (service, workers),
    ):
        await under_way(service, arrivals, f"http://127.0.0.1:{port}/")
        await stop(service, workers)
        assert await service.ended() == 0, service.log.read_text()
        await workers.gone()
        await completed(service, PLACES)
    assert {arrival.attempt for arrival in arrivals} == {"1"}
    assert len(arrivals) == PLACES


async def test_ctrl_c_while_a_worker_starts(tmp_path: Path):
    """It is not interrupted in the middle of an import, but stops like the others."""
    async with running_workers(tmp_path) as (service, workers):
        os.kill(service.pid, signal.SIGHUP)
        await workers.said("rolling restart: replacing")
        os.killpg(service.pid, signal.SIGINT)
        assert await service.ended() == 0
        await workers.gone()
        assert "Traceback" not in service.log.read_text()


async def completed(service: ServiceProcess, count: int) -> None:
    """Wait until so many timers are stored as completed."""

    async def look() -> bool:
        with closing(sqlite3.connect(service.database)) as connection:
            query = "SELECT count(*) FROM timers WHERE status = 'completed'"
            return connection.execute(query).fetchone() == (count,)

    await eventually(look, f"{count} timers to be completed")


async def test_a_second_signal_ends_all_at_once(tmp_path: Path):
    """However long the callbacks under way would take."""
    arrivals: list[Arrival] = []
    async with (
        running_receiver("127.0.0.1", 0, arrivals.append, delay=600_000) as port,
        running_workers(tmp_path, DRAIN_TIMEOUT="10m") as (service, workers),
    ):
        await under_way(service, arrivals, f"http://127.0.0.1:{port}/")
        os.kill(service.pid, signal.SIGTERM)
        await workers.said("stopping 2 workers")
        os.kill(service.pid, signal.SIGTERM)
        assert await service.ended() == 1
        await workers.gone()


async def test_workers_follow_a_supervisor_that_was_killed(tmp_path: Path):
    """After kill -9 of it no process is left; callbacks under way end first."""
    arrivals: list[Arrival] = []
    async with (
        running_receiver("127.0.0.1", 0, arrivals.append, delay=1000) as port,
        running_workers(tmp_path) as (service, workers),
    ):
        await under_way(service, arrivals, f"http://127.0.0.1:{port}/")
        await service.kill()
        await workers.gone()
        await completed(service, PLACES)
    assert len(arrivals) == PLACES


async def test_workers_follow_a_supervisor_that_was_killed_while_they_start(tmp_path: Path):
    """Even one that is not ready yet finds out."""
    async with running_workers(tmp_path) as (service, workers):
        before = set(workers.pids.values())
        os.kill(service.pid, signal.SIGHUP)
        await workers.said("rolling restart: replacing")
        await service.kill()
        await workers.gone()
        assert all(is_gone(pid) for pid in before)
        # What was starting had no time to say its number; nobody listens any more when it is gone.
        await eventually(lambda: _refused(service), "the port to be closed")


async def _refused(service: ServiceProcess) -> bool:
    try:
        await service.call("GET", "/healthz")
    except ConnectionRefusedError:
        return True
    except OSError:
        pass
    return False


async def test_sighup_replaces_the_workers_one_by_one(tmp_path: Path):
    """Each new one is ready before its old one goes."""
    async with running_workers(tmp_path) as (service, workers):
        before = workers.pids
        os.kill(service.pid, signal.SIGHUP)
        await workers.said("rolling restart: done")
        assert set(before.values()).isdisjoint(workers.pids.values())
        assert all(is_gone(pid) for pid in before.values())
        assert await answers(service)
        log = service.log.read_text()
        for number, pid in workers.pids.items():
            ready = log.index(f"worker {number} (pid {pid}) takes requests")
            assert ready < log.index(f"worker {number}: stopping")
        assert log.index("worker 1: stopped") < log.index(f"(pid {workers.pids[2]}) takes requests")


async def test_a_rolling_restart_that_cannot_be_is_given_up(tmp_path: Path):
    """The old workers stay, and serve on."""
    async with running_workers(tmp_path) as (service, workers):
        before = workers.pids
        make_newer(service.database)
        os.kill(service.pid, signal.SIGHUP)
        await workers.said("rolling restart: given up")
        assert workers.pids == before
        assert not any(is_gone(pid) for pid in before.values())
        assert await answers(service)


@pytest.mark.promise("never-lost", "never-early")
async def test_promises_hold_while_workers_come_and_go(tmp_path: Path):
    """Under load, with kills and a rolling restart: none lost, none early, no attempt twice."""
    ledger = Ledger()
    dice = random.Random(20261116)
    over = asyncio.Event()

    async def more(count: int) -> None:
        so_far = len(ledger.created)

        async def look() -> bool:
            return len(ledger.created) >= so_far + count

        await eventually(look, f"{count} more timers to be acknowledged")

    async def arrived() -> bool:
        return ledger.expected <= ledger.arrived

    async with (
        running_receiver("127.0.0.1", 0, ledger.arrivals.append, delay=50) as port,
        running_workers(tmp_path) as (service, workers),
        AsyncClient(f"http://127.0.0.1:{service.port}", api_key=API_KEY, timeout=5) as client,
    ):
        url = f"http://127.0.0.1:{port}/hook"
        load = [
            asyncio.create_task(put_under_load(client, ledger, url, dice, over)) for _ in range(8)
        ]
        try:
            await more(150)
            os.kill(workers.pids[1], signal.SIGKILL)
            await workers.ready(3)
            await more(150)
            os.kill(service.pid, signal.SIGHUP)
            await workers.said("rolling restart: done")
            await more(150)
            os.kill(workers.pids[2], signal.SIGKILL)
            await workers.ready(6)
            await more(150)
        finally:
            over.set()
            await asyncio.gather(*load)
        await eventually(arrived, "every acknowledged timer")
        assert await service.stop() == 0, service.log.read_text()
        await workers.gone()
    assert ledger.repeated == []
    assert ledger.arrived & ledger.canceled == set()
    assert [a for a in ledger.arrivals if a.lateness is not None and a.lateness < 0] == []
    assert ledger.early == []
