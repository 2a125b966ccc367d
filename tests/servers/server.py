"""A server is one database of one's own: a new folder on a free port, gone with its owner."""

import os
import shutil
import signal
import socket
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.ports import free_port
from tests.servers.account import server_account
from tests.servers.kept import KeptProcess, make_folder
from tests.servers.processes import descendants, freeze


class Server(ABC):
    """It can be stopped, crashed, paused and started again, on the same data and the same port.

    A kind of server says how it is set up, with which command it runs, and when it is ready.
    """

    name: str  # for its folder
    version: str  # such as "18.6"
    host = "127.0.0.1"  # where it listens
    farewell = signal.SIGKILL  # what ends it at once, for its folder goes with it
    stopping = signal.SIGTERM  # what ends it in order
    crashing = signal.SIGKILL  # what ends it with nothing put in order
    starts_within = 60.0  # seconds, on a busy machine

    def __init__(self, *, within: Path | None = None, port: int | None = None) -> None:
        """Make its folder and set it up; ``within`` is where, if not among temporary files."""
        self.port = free_port() if port is None else port
        self._account = server_account()
        self.folder = make_folder(self.name, self._account, within)
        self._process: KeptProcess | None = None
        try:
            self.set_up()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def url(self, **query: str) -> str:
        """Where to reach it, as a user who may do everything."""

    @abstractmethod
    def set_up(self) -> None:
        """Write its configuration, and what else it needs before its first start."""

    @abstractmethod
    def command(self) -> list[str | Path]:
        """The program and its arguments."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """What the program needs around it."""

    def is_ready(self) -> bool:
        """Tell whether it takes connections."""
        with socket.socket() as probe:
            return probe.connect_ex((self.host, self.port)) == 0

    @property
    def is_running(self) -> bool:
        """Tell whether it was started, and not ended since."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The process above all others of the server."""
        return next(iter(descendants(self._running().pid)))

    def start(self) -> None:
        """Start it, and return once it is ready."""
        assert self._process is None, "it is running already"
        self._process = KeptProcess(
            self.command(),
            env=self.environment(),
            account=self._account,
            folder=self.folder,
            farewell=self.farewell,
        )
        self._process.wait_until(self.is_ready, self.starts_within)

    def stop(self) -> None:
        """Stop it in order."""
        self._end(self.stopping)

    def crash(self) -> None:
        """End it with nothing put in order; what it acknowledged must be there after a start."""
        self._end(self.crashing)

    def pause(self) -> None:
        """Let nothing of it move, as if its machine hung: connections stand, and nobody answers."""
        for pid in descendants(self._running().pid):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                freeze(pid)

    def resume(self) -> None:
        """Let it go on."""
        for pid in descendants(self._running().pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """End it at once, if it runs, and remove its data."""
        if self._process is not None:
            self.resume()
            self._end(self.farewell)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._running(), None
        process.end(number)

    def _running(self) -> KeptProcess:
        assert self._process is not None, "it is not running"
        return self._process
