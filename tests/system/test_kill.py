"""A process that is killed again and again, or stopped for a while, under load: promises hold."""

import asyncio
import os
import random
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from duetime.cli.receiver import running_receiver
from duetime.client import AsyncClient
from tests.engine.weather import sent_after_it_was_taken_up
from tests.servers.processes import freeze
from tests.system.ledger import Ledger, put_under_load
from tests.system.service import API_KEY, ServiceProcess
from tests.waiting import eventually

KILLS = 10
pytestmark = pytest.mark.slow


async def killed_again_and_again(
    service: ServiceProcess, ledger: Ledger, url: str, kills: int
) -> None:
    dice = random.Random(20261115)
    base = f"http://127.0.0.1:{service.port}"
    for _ in range(kills):
        async with AsyncClient(base, api_key=API_KEY, timeout=5) as client:
            over = asyncio.Event()
            load = [
                asyncio.create_task(put_under_load(client, ledger, url, dice, over))
                for _ in range(8)
            ]
            acknowledged = len(ledger.created)
            await eventually(
                lambda so_far=acknowledged: _true(len(ledger.created) > so_far + 150),
                "150 more timers to be acknowledged",
            )
            await service.kill()
            over.set()
            await asyncio.gather(*load)
        await service.start()


async def _true(value: object) -> object:
    return value


@pytest.mark.promise("never-lost", "never-early", "cancel-holds", "own-number")
async def test_ten_kills_under_load(tmp_path: Path):
    """None lost, none early, none after its cancel, no attempt number twice, one webhook-id."""
    ledger = Ledger()
    service = ServiceProcess(tmp_path, CLAIM_TTL="1s")
    # The receiver takes its time, so that kills come in the middle of deliveries too.
    async with running_receiver("127.0.0.1", 0, ledger.arrivals.append, delay=100) as port:
        await service.start()
        try:
            url = f"http://127.0.0.1:{port}/hook"
            await killed_again_and_again(service, ledger, url, KILLS)
            await eventually(
                lambda: _true(ledger.expected <= ledger.arrived), "every acknowledged timer"
            )
            assert await service.stop() == 0
        finally:
            await service.end_if_running()

    assert len(ledger.created) > KILLS * 150
    assert len(ledger.canceled) > KILLS * 10
    early = [a for a in ledger.arrivals if a.lateness is not None and a.lateness < 0]
    assert early == []
    assert ledger.early == []
    assert ledger.arrived & ledger.canceled == set()
    deliveries = Counter(
        (a.headers["webhook-id"], a.headers["x-timer-attempt"]) for a in ledger.arrivals
    )
    assert [delivery for delivery, count in deliveries.items() if count > 1] == []
    webhook_ids = {(a.headers["x-timer-id"], a.headers["webhook-id"]) for a in ledger.arrivals}
    assert len(webhook_ids) == len(ledger.arrived)
    assert {a.attempt for a in ledger.arrivals} > {"1"}


_CLAIMED = "SELECT count(*) FROM timers WHERE status = 'executing' AND progress LIKE ?"


async def frozen_with_claims(service: ServiceProcess) -> bool:
    """Freeze it while it has claims that others can take up.

    Not while it has SQLite's file to itself: nobody could take anything up. Nor before it has
    claimed anything, because the other one was quicker, or when all of that is written down.
    """
    freeze(service.pid)
    with closing(sqlite3.connect(service.database, timeout=0.5, isolation_level=None)) as file:
        try:
            file.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            claims = 0
        else:
            (claims,) = file.execute(_CLAIMED, (f"%-{service.pid}-%",)).fetchone()
            file.execute("ROLLBACK")
    if not claims:
        os.kill(service.pid, signal.SIGCONT)
    return claims > 0


@pytest.mark.promise("one-node-per-attempt", "stalled-sends-nothing")
async def test_a_stalled_process_sends_nothing_that_was_taken_up(tmp_path: Path):
    """A node stopped by SIGSTOP past its claims sends none of them when it goes on."""
    ledger = Ledger()
    first = ServiceProcess(tmp_path, CLAIM_TTL="1s")
    second = ServiceProcess(tmp_path, CLAIM_TTL="1s")
    # A receiver that answers quickly has some claimed ahead: these must not leave after the stall.
    async with running_receiver("127.0.0.1", 0, ledger.arrivals.append, delay=20) as port:
        await first.start()
        await second.start()
        try:
            url = f"http://127.0.0.1:{port}/hook"
            base = f"http://127.0.0.1:{first.port}"
            async with AsyncClient(base, api_key=API_KEY) as client:
                batch = [
                    {"delay": "1s", "callback": {"type": "http", "url": url}} for _ in range(3_000)
                ]
                for item in (await client.create_batch(batch))["timers"]:
                    ledger.note_created(item["data"])
            await eventually(lambda: _true(len(ledger.arrivals) > 50), "the first arrivals")
            await eventually(lambda: frozen_with_claims(first), "it to stand still with claims")
            await eventually(
                lambda: _true(any(a.attempt != "1" for a in ledger.arrivals)),
                "the other one to take up its claims",
            )
            os.kill(first.pid, signal.SIGCONT)
            await eventually(
                lambda: _true(ledger.expected <= ledger.arrived), "every acknowledged timer"
            )
            assert await first.stop() == 0
            assert await second.stop() == 0
        finally:
            await first.end_if_running()
            await second.end_if_running()
    deliveries = Counter(
        (a.headers["webhook-id"], a.headers["x-timer-attempt"]) for a in ledger.arrivals
    )
    assert [delivery for delivery, count in deliveries.items() if count > 1] == []
    assert sent_after_it_was_taken_up(ledger.numbered) == []
    assert {a.attempt for a in ledger.arrivals} > {"1"}  # some were taken up
    assert ledger.early == []
