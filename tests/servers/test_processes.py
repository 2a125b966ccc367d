"""Processes that tests freeze."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.servers.processes import freeze, is_frozen

_BUSY = """
import threading
for _ in range(8):
    threading.Thread(target=lambda: [hash(b"busy") for _ in iter(int, 1)]).start()
print("ready", flush=True)
"""


def test_what_is_frozen_stands_still():
    """Once it is said to be frozen, no thread of it runs any more, however busy it was."""
    command = [sys.executable, "-S", "-c", _BUSY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            for _ in range(50):
                freeze(process.pid)
                assert is_frozen(process.pid)
                used = _used(process.pid)
                os.sched_yield()
                assert _used(process.pid) == used
                os.kill(process.pid, signal.SIGCONT)
        finally:
            process.kill()


def _used(pid: int) -> list[str]:
    """How long each of its threads has run, in nanoseconds."""
    return [each.read_text().split()[0] for each in Path(f"/proc/{pid}/task").glob("*/schedstat")]
