"""The helper that runs the service as a child process."""

from pathlib import Path

import pytest

from tests.system.service import ServiceProcess, running_service

pytestmark = pytest.mark.slow


@pytest.mark.promise("clean-stop")
async def test_starts_answers_and_stops(tmp_path: Path):
    """The service becomes ready, answers, and ends with 0 on SIGTERM."""
    async with running_service(tmp_path) as service:
        answer = await service.call("GET", "/healthz", key=None)
        assert answer.data["status"] == "up"
        assert await service.stop() == 0


async def test_starts_again_after_kill(tmp_path: Path):
    """A service that was killed starts again on its file, with its timers."""
    service = ServiceProcess(tmp_path)
    try:
        await service.start()
        body = {"delay": "1h", "callback": {"type": "http", "url": "http://127.0.0.1:1/"}}
        made = await service.call("POST", "/timers", body)
        await service.kill()
        await service.start()
        found = await service.call("GET", f"/timers/{made.data['id']}")
        assert found.data["status"] == "pending"
        assert await service.stop() == 0
    finally:
        await service.end_if_running()
