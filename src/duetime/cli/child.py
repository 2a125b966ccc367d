"""A child is a worker's process as its supervisor sees it: started, ready, told to stop, ended."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

from duetime import __version__
from duetime.cli.worker import orders
from duetime.clock import SystemClock
from duetime.config import Settings


class Child:
    """One process, from its start to its end."""

    def __init__(
        self,
        number: int,
        settings: Settings,
        listener: socket.socket,
        *,
        on_ready: Callable[["Child"], None],
    ) -> None:
        self.number = number
        self._on_ready = on_ready
        self._clock = SystemClock()
        self._started_at = self._clock.monotonic()
        self._channel, theirs = socket.socketpair()
        with theirs:
            handed_down = (listener.fileno(), theirs.fileno())
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, our own module
                # -P: the working directory may hold files that are named like modules.
                [
                    *(sys.executable, "-P", "-m", "duetime.cli.worker_main"),
                    *(__version__, str(number), *map(str, handed_down)),
                ],
                pass_fds=handed_down,
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C in a terminal reaches the supervisor alone
            )
        with suppress(OSError):  # it is dead already, and that is found out below
            self._channel.sendall(orders(settings))
        self._channel.setblocking(False)
        self._settled = asyncio.Event()
        self.is_ready = False
        self._following = asyncio.create_task(self._follow(), name=f"worker {number}")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def age(self) -> float:
        """The seconds since its start."""
        return self._clock.monotonic() - self._started_at

    @property
    def has_ended(self) -> bool:
        return self._following.done()

    async def settled(self) -> None:
        """Wait until it takes requests, or has ended before that; ``is_ready`` tells which."""
        await self._settled.wait()

    async def ended(self) -> int:
        """Wait for its end; the answer is its exit code, or less than 0 for a signal."""
        return await asyncio.shield(self._following)

    def stop(self) -> None:
        """Tell it to finish what is under way, and end."""
        with suppress(OSError):  # it has ended
            self._channel.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    async def _follow(self) -> int:
        loop = asyncio.get_running_loop()
        with self._channel:
            with suppress(OSError):
                while await loop.sock_recv(self._channel, 64):
                    self.is_ready = True
                    self._settled.set()
                    self._on_ready(self)
            # Its end of the channel is closed, so it has ended, or is about to.
            code = await asyncio.to_thread(self._process.wait)
        self._settled.set()
        return code


def is_as_told(code: int) -> bool:
    """Tell whether a process that was told to stop ended as it should.

    A signal ends only one that could not listen to it yet, and had nothing under way: a manager of
    services sends SIGTERM to all processes, and Ctrl-C in the moment of a process's birth reaches
    it before it has left the supervisor's group.
    """
    return code in {0, -signal.SIGTERM, -signal.SIGINT}


def fate(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"
