"""The program of the benchmark's processes: its receiver, its load generator, or a node of its own.

None of them outlives the benchmark, however that ends: it holds the other end of standard input.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from threading import Thread

import msgspec

from duetime.benching import generator, sink
from duetime.cli.exits import Exit
from duetime.cli.interpreter import loop_factory
from duetime.cli.node_commands import run_serve
from duetime.config import Settings
from duetime.errors import ConfigurationError, DuetimeError

_STDIN = 0
_CHUNK = 65_536


def main(what: str) -> int:
    """Be what was asked for; the answer is the exit code."""
    if what == "node":
        return _node()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        if what == "load":
            generator.serve(runner)
        else:
            _end_with_standard_input()
            runner.run(sink.serve())
    return Exit.OK


def _node() -> int:
    """Run what `serve` would run, by settings that come on a line."""
    received = b""
    while not received.endswith(b"\n"):
        if not (chunk := os.read(_STDIN, _CHUNK)):
            return Exit.OK  # the benchmark is gone before it has sent them
        received += chunk
    _end_with_standard_input()
    try:
        return run_serve(msgspec.json.decode(received, type=Settings))
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return Exit.USAGE
    except DuetimeError as error:
        print(error, file=sys.stderr)
        return Exit.FAILED


def _end_with_standard_input() -> None:
    """Be told to stop when the benchmark has ended."""

    def wait() -> None:
        # Not by sys.stdin: a thread that waits in there keeps the interpreter from ending.
        with suppress(OSError):
            while os.read(_STDIN, _CHUNK):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
