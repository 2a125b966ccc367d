"""A single process that is told twice to stop."""

import os
import signal
from pathlib import Path

import pytest

from duetime.cli.receiver import Arrival, running_receiver
from tests.system.service import running_service
from tests.waiting import eventually, until

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_a_single_process_at_once(tmp_path: Path, number):
    """Whoever does not want to wait for the callbacks under way need not; it exits with 1."""
    arrivals: list[Arrival] = []
    async with (
        running_receiver("127.0.0.1", 0, arrivals.append, delay=600_000) as port,
        running_service(tmp_path, DRAIN_TIMEOUT="10m") as service,
    ):
        callback = {"type": "http", "url": f"http://127.0.0.1:{port}/", "timeout": "5m"}
        await service.call("POST", "/timers", {"delay": "0s", "callback": callback})
        await until(lambda: arrivals, "a callback to be under way")
        os.kill(service.pid, number)

        async def takes_no_more_requests() -> bool:
            try:
                await service.call("GET", "/healthz")
            except OSError:
                return True
            return False

        await eventually(takes_no_more_requests, "the first signal to be heard")
        os.kill(service.pid, number)
        assert await service.ended() == 1
        assert "stopping at once" in service.log.read_text()
