"""A receiver that hangs, beside one that answers, on a running service and real sockets."""

from pathlib import Path
from typing import Any

import pytest

from duetime.cli.receiver import Arrival, running_receiver
from tests.system.service import running_service
from tests.waiting import until

pytestmark = pytest.mark.slow

COUNT = 200
TEN_MINUTES = 600_000


def timer_for(port: int) -> dict[str, Any]:
    callback = {"type": "http", "url": f"http://127.0.0.1:{port}/", "timeout": "5m"}
    return {"delay": "200ms", "callback": callback}


@pytest.mark.promise("only-itself")
async def test_a_receiver_that_hangs_delays_no_other(tmp_path: Path):
    """All that is for the one that answers arrives while the other has not answered once."""
    answered: list[Arrival] = []
    hanging: list[Arrival] = []
    async with (
        running_receiver("127.0.0.1", 0, hanging.append, delay=TEN_MINUTES) as silent,
        running_receiver("127.0.0.1", 0, answered.append) as quick,
        running_service(tmp_path, DRAIN_TIMEOUT="1s") as service,
    ):
        # The one that hangs comes first, in the batch and in what is created afterwards.
        batch = [timer_for(port) for port in [silent] * COUNT + [quick] * COUNT]
        assert (await service.call("POST", "/timers/batch", {"timers": batch})).status == 200
        await until(lambda: hanging and len(answered) == COUNT, "all that can be answered")
        for _ in range(10):
            for port in (silent, quick):
                made = await service.call("POST", "/timers", timer_for(port))
                assert made.status == 201
        await until(lambda: len(answered) == COUNT + 10, "what was created since")
        assert len(hanging) < COUNT  # places are few for who does not answer
    assert {arrival.attempt for arrival in answered} == {"1"}
