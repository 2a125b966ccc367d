"""A kept process is a server in the care of a keeper, seen from its owner."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tests.servers.account import Account
from tests.servers.install import Install

PATIENCE = 60.0  # seconds that anything may take on a busy machine
_KEEPER = Path(__file__).with_name("keeper.py")


class KeptProcess:
    """One run of a server, from its start to its end."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str],
        account: Account,
        folder: Path,
        farewell: signal.Signals,
    ) -> None:
        self.log = folder / "server.log"
        order = {
            "command": [str(part) for part in command],
            "env": dict(env),
            "popen": account.popen,
            "folder": str(folder),
            "log": str(self.log),
            "farewell": farewell,
        }
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", _KEEPER, json.dumps(order)],
            stdin=subprocess.PIPE,
            # Not the owner's: who reads that to its end would wait for the keeper too.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C reaches only the owner, who ends servers in order.
        )

    @property
    def pid(self) -> int:
        """The keeper's process, which is the parent of the server's."""
        return self._keeper.pid

    def wait_until(self, is_ready: Callable[[], bool], within: float = PATIENCE) -> None:
        """Return once it is ready; raise with what it logged if it ends or takes for ever."""
        give_up_at = time.monotonic() + within
        while not is_ready():
            if self._keeper.poll() is not None:
                raise RuntimeError(f"the server ended while starting:\n{self._logged()}")
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"not ready after {within:.0f} s:\n{self._logged()}")
            time.sleep(0.02)

    def end(self, number: signal.Signals) -> None:
        """Send the server a signal that ends it, and wait for its end."""
        stdin = self._keeper.stdin
        assert stdin is not None
        with suppress(BrokenPipeError):  # It may have ended by itself.
            stdin.write(f"{number:d}\n")
            stdin.flush()
        self._keeper.wait(PATIENCE)
        with suppress(BrokenPipeError):
            stdin.close()

    def _logged(self) -> str:
        try:
            return self.log.read_text(errors="replace")[-4000:]
        except OSError as error:
            return f"(no log: {error})"


def make_folder(name: str, account: Account, within: Path | None = None) -> Path:
    """A new folder that the account owns, outside the checkout, which it may not reach.

    ``within`` names another place, that it can reach.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"duetime-{name}-", dir=within))
    account.own(folder)
    return folder


def within_reach(install: Install, program: str, account: Account, folder: Path) -> Install:
    """The install itself if the account can run it, or else a copy of it in the folder."""
    try:
        install.run(program, "--version", **account.popen)
    except (OSError, subprocess.CalledProcessError):
        copy = replace(install, root=_copied(install.root, folder / "install", account))
        if install.borrowed:
            borrowed = _copied(install.borrowed, folder / "borrowed", account)
            copy = replace(copy, borrowed=borrowed)
        return copy
    return install


def folder_within_reach(folder: Path, account: Account, other: Path) -> Path:
    """The folder itself if the account can read what is in it, or else a copy in another one."""
    some = next(path for path in folder.iterdir() if path.is_file())
    if subprocess.run(["test", "-r", some], check=False, **account.popen).returncode == 0:
        return folder
    return _copied(folder, other / folder.name, account)


def _copied(root: Path, copy: Path, account: Account) -> Path:
    shutil.copytree(root, copy, symlinks=True)
    account.own(copy, *copy.rglob("*"))
    return copy
