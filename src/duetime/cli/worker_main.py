"""The program of a worker's process, which only a supervisor starts."""

import logging
import socket
import sys

from duetime import __version__
from duetime.cli import logs
from duetime.cli.exits import Exit
from duetime.cli.node import run_node
from duetime.cli.worker import STORE_AWAY, Worker
from duetime.errors import ConfigurationError, DuetimeError, StoreUnavailable

log = logging.getLogger("duetime")


def main(version: str, number: int, listener: int, channel: int) -> int:
    """Run a worker on the sockets that were handed down; the answer is the exit code."""
    worker = Worker(number, socket.socket(fileno=listener), socket.socket(fileno=channel))
    if version != __version__:  # and its settings may have another shape
        logs.configure("info", "text", worker=number)
        log.error("Duetime %s was installed over %s: restart the service", __version__, version)
        return Exit.USAGE
    settings = worker.settings()
    if settings is None:
        return Exit.OK
    try:
        return run_node(settings, dev=False, worker=worker)
    except ConfigurationError as error:
        log.error("%s", error)  # noqa: TRY400 - it says what to do; a traceback would hide it
        return Exit.USAGE
    except StoreUnavailable as error:
        log.error("%s", error)  # noqa: TRY400
        return STORE_AWAY
    except DuetimeError as error:
        log.error("%s", error)  # noqa: TRY400
        return Exit.FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
