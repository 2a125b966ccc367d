"""A process is a child of the benchmark: started, told and asked, and ended for certain."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path

from duetime.benching import usage
from duetime.benching.failures import BenchFailed

ENDS_WITHIN = 10.0  # seconds that a child has once it was told to end

_LONGEST_CAUSE = 2_000  # characters of what a child said before it died


class Process:
    """A running child."""

    def __init__(
        self,
        child: subprocess.Popen[str],
        name: str,
        errors: Path | None = None,
        started_ns: int = 0,
    ) -> None:
        self._child = child
        self.started_ns = started_ns  # when it was asked for
        self._name = name
        self._errors = errors
        self.port = 0

    @property
    def pid(self) -> int:
        return self._child.pid

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
            raise BenchFailed(f"{self._name} ended by itself with {code}{self._cause()}")

    def kill(self) -> None:
        """End it without a chance to do anything more."""
        self._child.kill()

    def tell(self, line: bytes) -> None:
        """Write a line to its standard input."""
        if self._child.stdin is None:
            raise BenchFailed(f"{self._name} does not listen")
        try:
            self._child.stdin.write(line.decode() + "\n")
            self._child.stdin.flush()
        except OSError as error:
            raise BenchFailed(f"{self._name} is gone: {error}{self._cause()}") from error

    async def line(self) -> str:
        """The next line that it prints; an empty text if it has ended."""
        if self._child.stdout is None:
            raise BenchFailed(f"{self._name} says nothing")
        return await asyncio.to_thread(self._child.stdout.readline)

    async def answer(self) -> str:
        """The next line that it prints, which must come."""
        if not (line := await self.line()):
            raise BenchFailed(f"{self._name} ended without an answer{self._cause()}")
        return line

    async def ended(self) -> None:
        """Wait until it has done its work."""
        if code := await asyncio.to_thread(self._child.wait):
            raise BenchFailed(f"{self._name} failed with {code}{self._cause()}")

    async def stop(self) -> None:
        """End it, in good order if it does so in time."""
        self._child.terminate()
        try:
            await asyncio.to_thread(self._child.wait, ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._child.kill()
            await asyncio.to_thread(self._child.wait)

    def end(self) -> None:
        """Leave nothing of it."""
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                with suppress(OSError):  # what it was told last has nobody to read it
                    stream.close()

    def _cause(self) -> str:
        """What it has said last, if anybody kept that."""
        if self._errors is None:
            return ""
        said = self._errors.read_text(errors="replace").strip()[-_LONGEST_CAUSE:]
        return f"; it said:\n{said}" if said else ""


@asynccontextmanager
async def started(
    arguments: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    name: str = "",
    errors: Path | None = None,
    program: str = sys.executable,
) -> AsyncIterator[Process]:
    """Start a child, of Python unless told; whatever happens, it is gone afterwards.

    ``errors`` is a file for its standard error, which is ours unless told. Its standard input ends
    when we end, in whatever way: one that reads it can follow.
    """
    started_ns = time.time_ns()
    with nullcontext() if errors is None else errors.open("ab") as stderr:
        child = subprocess.Popen(  # noqa: ASYNC220, S603 - nothing else runs while our child starts
            [program, *arguments],
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,  # Ctrl-C reaches only us, and we end the children in order
        )
    process = Process(child, name or " ".join(arguments), errors, started_ns)
    try:
        yield process
    finally:
        try:
            await process.stop()
        finally:
            process.end()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
