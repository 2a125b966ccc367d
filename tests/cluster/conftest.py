"""The databases that the nodes of a cluster share, and how long the tests of faults go on.

By default each fault is put to two nodes a few times, on the engines that its test names. With
`--long` (`make test-cluster`) it is three nodes and ten times, on every engine, and nothing runs
beside it. MySQL is one of those that wait for the long run, for its store is MariaDB's.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers.fixtures import FreshDatabase, OwnServer
from tests.servers.kinds import DATABASES
from tests.servers.server import Server

POSTGRES = "postgres-18"
SERVERS = [kind for kind in DATABASES if kind != "postgres-15"]  # whose store is the same
ENGINES = ["sqlite", *SERVERS]
EACH_STORE = [engine for engine in ENGINES if engine != "mysql"]  # whose store is MariaDB's


class Extent(NamedTuple):
    """How much a test does."""

    nodes: int
    times: int
    is_undisturbed: bool = False  # nothing else runs beside it


class OwnDatabase(NamedTuple):
    """A server of the test's own, and an empty database on it."""

    server: Server
    url: str


def on(*engines: str, of: list[str] = ENGINES) -> list[object]:
    """Parameters: these engines always, and the others in the long run."""
    return [
        pytest.param(engine, marks=() if engine in engines else pytest.mark.long) for engine in of
    ]


@pytest.fixture
def extent(request: pytest.FixtureRequest) -> Extent:
    """As it was asked for."""
    if not request.config.getoption("--long"):
        return Extent(2, 3)
    return Extent(3, 10, is_undisturbed="PYTEST_XDIST_WORKER" not in os.environ)


@pytest.fixture(params=ENGINES)
async def database_url(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_database: FreshDatabase
) -> str:
    """An empty database of each kind that several nodes can share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'duetime.db'}"
    return await fresh_database(request.param)


@pytest.fixture(params=SERVERS)
async def own_database(request: pytest.FixtureRequest, own_server: OwnServer) -> OwnDatabase:
    """A server that the test may do anything to."""
    server: Server = own_server(request.param)
    make: Callable[[str], Awaitable[str]] = DATABASES[request.param].make
    return OwnDatabase(server, await make(server.url()))
