"""A process is a child of the benchmark: started, asked what it has used, and ended for certain."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from bench import usage


class Process:
    """A running child."""

    def __init__(self, child: subprocess.Popen[str], name: str) -> None:
        self._child = child
        self._name = name
        self.port = 0

    def cpu_seconds(self) -> float:
        """What it has used of the processors so far, all its threads together."""
        return usage.cpu_seconds(self._child.pid)

    def memory_mb(self) -> float:
        """What it holds of the machine's memory."""
        return usage.memory_mb(self._child.pid)

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
    arguments: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    program: str = sys.executable,
) -> AsyncIterator[Process]:
    """Start a child, of Python unless told; whatever happens, it is gone afterwards."""
    child = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs while a child starts
        [program, *arguments],
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches only us, and we end the children in order
    )
    try:
        yield Process(child, " ".join(arguments))
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
