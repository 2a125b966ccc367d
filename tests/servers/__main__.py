"""Fetch the servers that the tests need, where progress can be seen; or run one of them.

`python -m tests.servers` fetches all of them ahead of the tests. With the name of one, as in
`python -m tests.servers postgres-18`, it starts that one, prints its URL, and ends it on Ctrl-C.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.servers.kinds import KINDS
from tests.servers.pgbouncer import pgbouncer
from tests.servers.unavailable import Unavailable


def fetch() -> None:
    """Fetch every server, all at once: most of the time, each waits for somebody."""
    installs = {name: kind.install for name, kind in KINDS.items()} | {"pgbouncer": pgbouncer}
    with ThreadPoolExecutor(len(installs)) as fetchers:
        list(fetchers.map(_fetch, installs, installs.values()))


def _fetch(name: str, install: Callable[[], Any]) -> None:
    try:
        install()
    except Unavailable as reason:
        # Not an error here: the tests say what they left out, and CI fails over it.
        _say(f"{name} cannot be had: {reason}")


def run(name: str) -> int:
    """Run one until a signal comes; the answer is the exit code."""
    kind = KINDS[name]
    _say(f"starting {name}")
    try:
        server = kind.start()
    except Unavailable as reason:
        _say(f"{name} cannot be had: {reason}")
        return 1
    try:
        url = asyncio.run(kind.make(server.url()))
        _say(f"{kind.title} {server.version} is ready, and gone on Ctrl-C; use it with")
        print(f"{kind.variable}='{url}'", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
    finally:
        server.close()
    return 0


def _say(what: str) -> None:
    print(f"servers: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description=__doc__)
    parser.add_argument("name", nargs="?", choices=KINDS, help="the one to run")
    wanted = parser.parse_args().name
    if wanted is None:
        fetch()
    else:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        sys.exit(run(wanted))
