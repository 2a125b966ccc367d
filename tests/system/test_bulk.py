"""A bulk cancel of 100,000 timers, whose process is killed in the middle, while others fire."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from duetime.cli.receiver import running_receiver
from tests.system.ledger import Ledger
from tests.system.service import ServiceProcess
from tests.waiting import eventually

TIMERS = 100_000
PORTION = 10_000
OTHERS = 300

pytestmark = pytest.mark.slow


async def create(service: ServiceProcess, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answer = await service.call("POST", "/timers/batch", {"timers": bodies})
    assert answer.status == 200, answer.body
    assert answer.data["created"] == len(bodies)
    return [item["data"] for item in answer.data["timers"]]


async def keep_creating(service: ServiceProcess, ledger: Ledger, url: str) -> None:
    """Create timers that are due within seconds, a few at a time, for as long as it goes on."""
    body = {"delay": "1500ms", "group": "others", "callback": {"type": "http", "url": url}}
    while True:
        try:
            for timer in await create(service, [body] * 5):
                ledger.note_created(timer)
        except (OSError, AssertionError):  # it is being killed, or started
            pass
        await asyncio.sleep(0.1)


@pytest.mark.promise("bulk-counts", "never-lost", "never-early")
async def test_a_hundred_thousand(tmp_path: Path):
    """Killed in the middle and started again: the count is right, and all others have fired."""
    ledger = Ledger()
    service = ServiceProcess(tmp_path, CLAIM_TTL="2s")

    async def action() -> dict[str, Any]:
        return (await service.call("GET", f"/actions/{id_}")).data

    async def has_changed(so_many: int) -> bool:
        return (await action())["changed"] >= so_many

    async def has_ended() -> dict[str, Any] | None:
        now = await action()
        return now if now["state"] != "running" else None

    async with running_receiver("127.0.0.1", 0, ledger.arrivals.append) as port:
        url = f"http://127.0.0.1:{port}/hook"
        await service.start()
        try:
            far = {"delay": "30d", "group": "old", "callback": {"type": "http", "url": url}}
            for _ in range(TIMERS // PORTION):
                await create(service, [far] * PORTION)
            load = asyncio.create_task(keep_creating(service, ledger, url))
            asked = await service.call(
                "POST",
                "/timers/actions",
                {"action": "cancel", "filter": {"group": "old", "status": "pending"}},
            )
            assert asked.status == 202, asked.body
            id_ = asked.data["id"]
            await eventually(lambda: has_changed(TIMERS // 3), "a third to be canceled", every=0.02)
            before = await action()
            assert before["state"] == "running"
            await service.kill()
            await service.start()
            for so_many in range(before["changed"] + 1, TIMERS, PORTION):
                await eventually(partial(has_changed, so_many), "the action to go on")
            done = await eventually(has_ended, "the action to end")
            await eventually(lambda: _true(len(ledger.created) > OTHERS), "enough others")
            load.cancel()
            await asyncio.gather(load, return_exceptions=True)
            await eventually(lambda: _true(ledger.expected <= ledger.arrived), "every other timer")
            left = await service.call("GET", "/timers?group=old&status=pending&limit=1")
            gone = await service.call("GET", "/timers?group=old&status=canceled&limit=1")
            assert await service.stop() == 0
        finally:
            await service.end_if_running()

    assert (done["state"], done["matched"], done["changed"]) == ("done", TIMERS, TIMERS)
    assert (done["skipped"], done["failed"]) == (0, 0)
    assert (left.data["total"], gone.data["total"]) == (0, TIMERS)
    assert ledger.early == []


async def _true(value: object) -> object:
    return value
