"""Ports for services that tests start as processes of their own."""

import random
import socket

# Below the range from which the system takes the ports of outgoing connections: one of those
# must not slip in between the moment a port is found free and the moment it is listened on.
_RANGE = range(15_000, 30_000)


def free_port() -> int:
    """A port that nobody listens on, and nobody on the one after it."""
    for port in random.sample(_RANGE, 200):
        with socket.socket() as probe, socket.socket() as next_probe:
            try:
                probe.bind(("127.0.0.1", port))
                next_probe.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
        return port
    raise AssertionError("no port is free")
