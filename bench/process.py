"""A process is a child of the benchmark: started, asked what it has used, and ended for certain."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from bench import usage


class Process:
    """A running child."""

    def __init__(self, child: subprocess.Popen[str], name: str, started_ns: int) -> None:
        self._child = child
        self._name = name
        self.started_ns = started_ns  # when it was asked for
        self.port = 0

    def cpu_seconds(self) -> float:
        """What it has used of the processors so far, all its threads together."""
        return usage.cpu_seconds(self._child.pid)

    def memory_mb(self) -> float:
        """What it holds of the machine's memory."""
        return usage.memory_mb(self._child.pid)

    def peak_mb(self) -> float:
        """The most that it ever held."""
        return usage.peak_mb(self._child.pid)

    def check(self) -> None:
        """Raise if it has ended by itself."""
        if (code := self._child.poll()) is not None:
            raise RuntimeError(f"{self._name} ended by itself with {code}")

    def kill(self) -> None:
        """End it without a chance to do anything more."""
        self._child.kill()

    async def line(self) -> str:
        """The next line that it prints."""
        assert self._child.stdout is not None
        return await asyncio.to_thread(self._child.stdout.readline)

    async def ended(self) -> None:
        """Wait until it has done its work."""
        if code := await asyncio.to_thread(self._child.wait):
            raise RuntimeError(f"{self._name} failed with {code}")


@asynccontextmanager
async def started(
    arguments: Sequence[str], env: Mapping[str, str] | None = None
) -> AsyncIterator[Process]:
    """Start a Python child; whatever happens, it is gone afterwards."""
    started_ns = time.time_ns()
    child = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs while a child starts
        [sys.executable, *arguments],
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches only us, and we end the children in order
    )
    try:
        yield Process(child, " ".join(arguments), started_ns)
    finally:
        child.terminate()
        try:
            await asyncio.to_thread(child.wait, 10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stdout is not None:
            child.stdout.close()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
