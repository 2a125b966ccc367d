"""Fetch the servers that the tests need, ahead of the tests, where progress can be seen."""

import sys

from tests.servers.installs import INSTALLS
from tests.servers.unavailable import Unavailable

for name, find in INSTALLS.items():
    try:
        find()
    except Unavailable as reason:
        # Not an error here: the tests say what they left out, and CI fails over it.
        print(f"servers: {name} cannot be had: {reason}", file=sys.stderr, flush=True)
