"""The wires between a node and its database: whose protocol is spoken, and at which address.

A new engine adds its line to WIRES, with a watcher that knows the answers to writes of timers.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from tests.cluster.wires import cassandra, dynamodb, mongodb, mysql, postgres, redis


class Watcher(Protocol):
    """Follows one connection, and knows the answers that are to be lost."""

    def asked(self, data: bytes) -> None:
        """Take note of what goes to the target."""

    def is_awaited(self, answer: bytes) -> bool:
        """Tell whether this piece ends an answer that is to be lost."""


def port_of(url: str) -> int:
    """The port in the place where most URLs have it."""
    port = urlsplit(url).port
    assert port, "only a server can be reached through a proxy"
    return port


def at_port(url: str, port: int) -> str:
    """The same database, reached at another port of this machine."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}{at}127.0.0.1:{port}").geturl()


class Wire(NamedTuple):
    """How to stand between a node and one kind of database."""

    watcher: Callable[[], Watcher]
    port: Callable[[str], int] = port_of
    through: Callable[[str, int], str] = at_port


# By the scheme of the URL.
WIRES: dict[str, Wire] = {
    "postgresql": Wire(postgres.TimerWrites),
    "mysql": Wire(mysql.TimerWrites),
    "mongodb": Wire(mongodb.TimerWrites, through=mongodb.through),
    "cassandra": Wire(cassandra.TimerWrites),
    "dynamodb": Wire(dynamodb.TimerWrites, dynamodb.port_of, dynamodb.at_port),
    "redis": Wire(redis.TimerWrites),
}


def wire_of(url: str) -> Wire:
    """The wire that a database of this URL is reached by."""
    return WIRES[url.partition(":")[0]]
