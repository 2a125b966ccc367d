"""A keeper is the parent of one server, and ends it when the server's owner is gone.

Its standard input is a pipe whose other end only the owner holds. A line on it is the number of a
signal to pass on. The end of it means that the owner has ended, however that came: the kernel
closes the pipe of a process that was killed as well. Then the server is ended and its folder is
removed. (Linux could signal a child when its parent dies, but goes by the thread that started the
child, and forgets it when the child changes its user; and the folder would stay behind.)

Run as a script: it uses nothing but the standard library, so that it starts quickly.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

_PATIENCE = 10.0  # seconds that a server may take to end before it is killed


class Keeper:
    """Holds the server's process."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._farewell: int = order["farewell"]
        self._folder = Path(order["folder"])
        self._is_orphaned = False
        with Path(order["log"]).open("ab") as log:
            self._server = subprocess.Popen(
                order["command"],
                cwd=self._folder,
                env=order["env"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                **order["popen"],
            )

    def obey(self) -> None:
        """Pass signals on until the owner is gone, then end the server."""
        for line in sys.stdin:
            self._server.send_signal(int(line))
        self._is_orphaned = True
        self._server.send_signal(self._farewell)
        try:
            self._server.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._server.kill()

    def watch(self) -> int:
        """Wait for the server's end, tidy up if nobody else will, and return its exit code."""
        code = self._server.wait()
        if self._is_orphaned:
            shutil.rmtree(self._folder, ignore_errors=True)
        return code


if __name__ == "__main__":
    keeper = Keeper(json.loads(sys.argv[1]))
    threading.Thread(target=keeper.obey, daemon=True).start()
    # At once, without waiting for the thread, which is still reading.
    os._exit(keeper.watch() & 0xFF)
