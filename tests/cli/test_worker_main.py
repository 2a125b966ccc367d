"""The program of a worker, started by hand: what it does where there is nothing to do."""

import socket
import subprocess
import sys

from duetime import __version__
from duetime.cli.worker import STORE_AWAY, orders
from duetime.config import load_settings
from tests.ports import free_port


def start(version: str, channel: socket.socket) -> "subprocess.CompletedProcess[str]":
    with socket.socket() as listener:
        fds = (listener.fileno(), channel.fileno())
        program = [sys.executable, "-m", "duetime.cli.worker_main"]
        return subprocess.run(
            [*program, version, "1", *map(str, fds)],
            pass_fds=fds,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )


def test_a_supervisor_that_is_gone_is_not_waited_for():
    """It may die before it has sent the settings."""
    ours, theirs = socket.socketpair()
    ours.sendall(b'{"half of')
    ours.close()
    with theirs:
        ended = start(__version__, theirs)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_supervisor_of_another_version_is_told_to_restart():
    """Its settings may have another shape; this counts as a wrong setting, so nothing loops."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ended = start("0.0.0", theirs)
    assert ended.returncode == 2
    assert f"worker 1: Duetime {__version__} was installed over 0.0.0: restart" in ended.stderr


def test_a_database_that_is_away_is_told_apart():
    """A worker that finds none at its start is not at fault: its supervisor tries again."""
    ours, theirs = socket.socketpair()
    url = f"postgresql://nobody:secret@127.0.0.1:{free_port()}/none"
    settings = load_settings({}, {"API_KEY": "k" * 32, "DATABASE_URL": url})
    with ours, theirs:
        ours.sendall(orders(settings))
        ended = start(__version__, theirs)
    assert ended.returncode == STORE_AWAY
    assert "PostgreSQL: " in ended.stderr
    assert "secret" not in ended.stderr
