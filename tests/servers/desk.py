"""The desk starts one server of each kind when somebody first asks, for all processes of a run.

Tests run in several processes, and a server must outlive each of them but not the run. So the
process that leads the run owns the servers; the others ask it over a Unix socket.
"""

import secrets
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

from tests.servers.kinds import KINDS
from tests.servers.server import Server
from tests.servers.unavailable import Unavailable

DESK = "duetime-desk"  # its name among the plugins of pytest
ASKED = "server"  # the property of a test that names a server which it asked for


@dataclass(frozen=True)
class Offer:
    """What the desk has: a server's URL and version, or why there is none."""

    url: str = ""
    version: str = ""
    reason: str = ""  # why it cannot be had on this machine
    failure: str = ""  # what went wrong, though it should have worked


class Desk:
    """Owns the servers."""

    def __init__(self) -> None:
        self.offers: dict[str, Offer] = {}
        self._servers: list[Server] = []
        self._locks = {engine: threading.Lock() for engine in KINDS}  # some start slowly
        self._listener: Listener | None = None
        self._folder = Path(tempfile.gettempdir()) / f"duetime-desk-{secrets.token_hex(8)}"

    def ask(self, engine: str) -> Offer:
        """The server of this kind, started if nobody asked before."""
        with self._locks[engine]:
            if engine not in self.offers:
                self.offers[engine] = self._start(engine)
            return self.offers[engine]

    def open(self) -> str:
        """Let other processes ask too; they find the desk at the address that is returned."""
        self._folder.mkdir(mode=0o700)
        address = str(self._folder / "socket")
        self._listener = Listener(address, "AF_UNIX")
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()
        return address

    def close(self) -> None:
        """End all servers."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        if self._listener is not None:
            self._listener.close()
            self._folder.rmdir()

    def _start(self, engine: str) -> Offer:
        try:
            server = KINDS[engine].start(**KINDS[engine].shared)
            self._servers.append(server)
        except Unavailable as reason:
            return Offer(reason=str(reason))
        except Exception as error:  # noqa: BLE001 - whoever asked must get an answer
            return Offer(failure=f"it did not start: {error}")
        return Offer(server.url(), f"{KINDS[engine].title} {server.version}")

    def _serve(self, listener: Listener) -> None:
        with suppress(OSError):  # The desk was closed.
            while True:
                threading.Thread(
                    target=self._answer, args=(listener.accept(),), daemon=True
                ).start()

    def _answer(self, connection: Connection) -> None:
        with connection, suppress(EOFError, OSError):  # Whoever asked may have gone.
            connection.send(self.ask(connection.recv()))


def desk_at(address: str) -> Callable[[str], Offer]:
    """Ask the desk of another process."""

    def ask(engine: str) -> Offer:
        with Client(address, "AF_UNIX") as connection:
            connection.send(engine)
            offer: Offer = connection.recv()
        return offer

    return ask
