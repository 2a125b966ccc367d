"""What a running service writes into its log, with everything turned on."""

from base64 import b64encode
from pathlib import Path

import pytest

from duetime.cli.receiver import Arrival, running_receiver
from tests.ports import free_port
from tests.system.service import API_KEY, ServiceProcess, running_service
from tests.waiting import eventually, until

pytestmark = pytest.mark.slow

SIGNING = b64encode(b"marked-signing-secret-of-32-byte").decode()
SEALING = b64encode(b"marked-sealing-key-of-32-bytes-x").decode()
MARKED = ["marked-token", "marked-wrong-key", "marked-header", "marked-payload", "marked-password"]
SECRETS = [API_KEY, SIGNING, SEALING, *MARKED]


async def failed(service: ServiceProcess, count: int) -> bool:
    return (await service.call("GET", "/timers?status=failed")).data["total"] == count


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize("form", ["text", "json"])
async def test_no_secret_is_in_the_log_of_a_running_service(tmp_path: Path, form):
    """It shows neither a key nor what a timer carries, be it delivered, failed or refused."""
    arrivals: list[Arrival] = []
    settings = {
        "LOG_LEVEL": "debug",
        "LOG_FORMAT": form,
        "SIGNING_SECRETS": f"whsec_{SIGNING}",
        "SECRETS_KEY": SEALING,
    }
    async with (
        running_receiver("127.0.0.1", 0, arrivals.append) as good,
        running_receiver("127.0.0.1", 0, arrivals.append, status=500) as bad,
        running_service(tmp_path, **settings) as service,
    ):
        bank = {"type": "header", "header": "X-Bank", "value": "marked-token", "allow_http": True}
        made = await service.call("PUT", "/credentials/bank", {**bank, "hosts": ["127.0.0.1"]})
        assert made.status == 201, made

        async def create(host: str, key: str = API_KEY) -> int:
            callback = {
                "type": "http",
                "url": f"http://{host}/",
                "headers": {"Authorization": "Bearer marked-header"},
                "payload": {"card": "marked-payload"},
                "credential": "bank",
            }
            body = {"delay": "0s", "callback": callback}
            return (await service.call("POST", "/timers", body, key=key)).status

        away = free_port()
        for port in (good, bad, away):
            assert await create(f"127.0.0.1:{port}") == 201
        assert await create(f"user:marked-password@127.0.0.1:{good}") == 400
        assert await create(f"127.0.0.1:{good}", key="marked-wrong-key") == 401
        await until(lambda: len(arrivals) == 2, "both receivers to be called")
        await eventually(lambda: failed(service, 2), "two timers that failed")
        assert await service.stop() == 0
        log = service.log.read_text()
    assert {arrival.headers["authorization"] for arrival in arrivals} == {"Bearer marked-header"}
    assert {arrival.headers["x-bank"] for arrival in arrivals} == {"marked-token"}
    assert "stopped" in log  # it was written to its end
    assert [secret for secret in SECRETS if secret in log] == []
