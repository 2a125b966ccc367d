"""A service behind a proxy: all callbacks go through it, and its password stays with it."""

from base64 import b64encode
from pathlib import Path

import pytest

from duetime.cli.receiver import Arrival, running_receiver
from tests.delivery.proxy import ConnectProxy
from tests.system.service import running_service
from tests.waiting import until

pytestmark = pytest.mark.slow

PASSWORD = "marked-proxy-password"


@pytest.mark.promise("no-secret", "permitted-addresses")
@pytest.mark.parametrize(("host", "dns"), [("127.0.0.1", "here"), ("a.example", "proxy")])
async def test_callback_of_a_service_behind_a_proxy(tmp_path: Path, host: str, dns: str):
    """What the settings say is what the node does: a tunnel to the address, or to the name."""
    arrivals: list[Arrival] = []
    authorization = f"Basic {b64encode(f'me:{PASSWORD}'.encode()).decode()}"
    async with (
        ConnectProxy(authorization=authorization, hosts={"a.example": "127.0.0.1"}) as proxy,
        running_receiver("127.0.0.1", 0, arrivals.append) as port,
    ):
        settings = {"EGRESS_PROXY": proxy.url(f"me:{PASSWORD}@"), "EGRESS_PROXY_DNS": dns}
        async with running_service(tmp_path, LOG_LEVEL="debug", **settings) as service:
            callback = {"type": "http", "url": f"http://{host}:{port}/"}
            body = {"delay": "0s", "callback": callback}
            assert (await service.call("POST", "/timers", body)).status == 201
            await until(lambda: arrivals, "the callback")
            assert await service.stop() == 0
            assert PASSWORD not in service.log.read_text()
        assert proxy.targets == [f"{host}:{port}"]
