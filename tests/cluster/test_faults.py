"""Three nodes under a load of creates, changes and fires: every promise holds through each fault.

Each test puts its fault to the cluster ten times or more, and has the whole history checked.
"""

import time
from pathlib import Path

import pytest

from tests.cluster.campaign import under_load
from tests.cluster.checker import lateness
from tests.cluster.nodes import CLAIM_TTL
from tests.system.service import eventually, told

TIMES = 10
pytestmark = pytest.mark.slow


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """Where the nodes keep their timers."""
    return f"sqlite:///{tmp_path / 'duetime.db'}"


async def test_kill(tmp_path: Path, database_url: str):
    """kill -9 of one node after the other."""
    async with under_load(tmp_path, database_url, seed=1) as campaign:
        for n in range(TIMES):
            node = campaign.nodes[n % 3]
            with campaign.fault("kill", node):
                await node.kill()
            await campaign.busy()
            await node.start()
            await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.retaken > 0


async def test_freeze(tmp_path: Path, database_url: str):
    """SIGSTOP until the node's claims have run out, and SIGCONT: it sends none of them then."""
    async with under_load(tmp_path, database_url, seed=2) as campaign:
        for n in range(TIMES):
            node = campaign.nodes[n % 3]
            with campaign.fault("freeze", node):
                node.freeze()
                began = time.monotonic()
                await eventually(
                    lambda began=began: told(time.monotonic() - began > 1.5 * CLAIM_TTL),
                    "its claims to run out",
                )
                node.thaw()
            await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.retaken > 0


async def test_kill_of_all(tmp_path: Path, database_url: str):
    """kill -9 of all nodes at once."""
    async with under_load(tmp_path, database_url, seed=3) as campaign:
        for _ in range(TIMES):
            with campaign.fault("kill of all", *campaign.nodes):
                await campaign.cluster.kill()
            await campaign.cluster.start()
            await campaign.busy()
            await campaign.recovered()
    assert campaign.violations() == []
    assert campaign.retaken > 0


async def test_rolling_restart(tmp_path: Path, database_url: str):
    """One node after the other is stopped and started: nothing is late, nothing comes twice."""
    async with under_load(tmp_path, database_url, seed=4) as campaign:
        for n in range(TIMES + 2):
            node = campaign.nodes[n % 3]
            with campaign.fault("restart", node):
                assert await node.stop() == 0
                await node.start()
            await campaign.busy()
    assert campaign.violations(faults=[]) == []  # a restart is no excuse
    assert lateness(campaign.history).worst <= 1_000
