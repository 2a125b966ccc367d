"""Ports for services that tests start as processes of their own."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

# Below the range from which the system takes the ports of outgoing connections: one of those
# must not slip in between the moment a port is found free and the moment it is listened on.
_RANGE = range(15_000, 30_000)

# Not the generator that all share: within a test, Hypothesis has that one begin at the same number.
_dice = Random()


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port that nobody listens on, nor will: it is held, so that nobody else can."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", free_port()))
        yield held.getsockname()[1]


def free_port() -> int:
    """A port that nobody listens on, and nobody on the one after it."""
    for port in _dice.sample(_RANGE, 200):
        with socket.socket() as probe, socket.socket() as next_probe:
            try:
                probe.bind(("127.0.0.1", port))
                next_probe.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
        return port
    raise AssertionError("no port is free")
