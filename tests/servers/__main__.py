"""Fetch the servers that the tests need, ahead of the tests, where progress can be seen."""

import sys

from tests.servers.installs import pgbouncer
from tests.servers.kinds import KINDS
from tests.servers.unavailable import Unavailable

for name, install in {
    **{name: kind.install for name, kind in KINDS.items()},
    "pgbouncer": pgbouncer,
}.items():
    try:
        install()
    except Unavailable as reason:
        # Not an error here: the tests say what they left out, and CI fails over it.
        print(f"servers: {name} cannot be had: {reason}", file=sys.stderr, flush=True)
