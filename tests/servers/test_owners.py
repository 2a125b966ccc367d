"""Servers of the tests go with their owner, however he goes."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.servers.kinds import KINDS
from tests.servers.processes import descendants
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
OWNER = """
import sys, time
from tests.servers.kinds import KINDS
server = KINDS[sys.argv[1]].start()
print(server.port, server.folder, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", KINDS)
async def test_it_does_not_outlive_an_owner_that_was_killed(engine: str, server_url):
    """Neither the server nor its folder, when the owner had no chance to clean up."""
    server_url(engine)  # skips where there is no such server
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, engine, cwd=ROOT, stdout=subprocess.PIPE
    )
    port, folder = (await asyncio.wait_for(owner.stdout.readline(), 120)).decode().split()
    processes = descendants(owner.pid)
    assert len(processes) >= 2  # its keeper, and the server
    owner.kill()
    await owner.wait()

    async def all_gone() -> bool:
        return not remains(processes, Path(folder))

    try:
        await eventually(all_gone, f"{processes} and {folder} to be gone")
    finally:
        end(processes)
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", int(port))


def remains(pids: Iterable[int], folder: Path) -> bool:
    """Whether a process still runs, or the folder is still there."""
    return folder.exists() or any(map(is_running, pids))


def end(pids: Iterable[int]) -> None:
    """Leave nothing behind if the test fails; whoever still runs is a child of the dead owner."""
    for pid in filter(is_running, pids):
        os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Whether a process is there and not only waits to be reaped."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
