"""What pytest sees of the servers: the desk of the run, and the fixtures that give URLs."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, NoReturn

import pytest

from tests.servers.cassandra import cassandra_5
from tests.servers.cassandra_ring import CassandraRing
from tests.servers.desk import ASKED, DESK, Desk, desk_at
from tests.servers.kinds import DATABASES, KINDS, Kind
from tests.servers.mongodb import mongodb_6
from tests.servers.mongodb_set import MongodbSet
from tests.servers.pgbouncer import Pgbouncer, pgbouncer
from tests.servers.postgres import PostgresServer
from tests.servers.unavailable import Unavailable

FreshDatabase = Callable[[str], Awaitable[str]]
OwnServer = Callable[..., Any]
OwnPostgres = Callable[..., PostgresServer]
OwnPgbouncer = Callable[[PostgresServer], Pgbouncer]

_EMBEDDED = {"memory", "memory-wrapped", "sqlite"}
_FIXTURES: set[str] = set()  # the names of those below: who asks for one needs a server


def _fixture(scope: Literal["function", "module", "session"] = "function") -> Callable[..., Any]:
    def make(function: Callable[..., Any]) -> Any:
        _FIXTURES.add(function.__name__)
        return pytest.fixture(scope=scope)(function)

    return make


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Desk(), DESK)


def pytest_unconfigure(config: pytest.Config) -> None:
    if desk := _desk(config):
        desk.close()


def _desk(config: pytest.Config) -> Desk | None:
    """The desk, in the process that leads the run."""
    desk: Desk | None = config.pluginmanager.get_plugin(DESK)
    return desk


class Sharing:
    """Tells the workers of pytest-xdist where the desk is."""

    def __init__(self, desk: Desk) -> None:
        self._address = desk.open()

    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["desk"] = self._address


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    plugins = session.config.pluginmanager
    if (desk := _desk(session.config)) and plugins.has_plugin("dsession"):
        plugins.register(Sharing(desk))


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _needs_a_server(item):
            item.add_marker(pytest.mark.server)


def _needs_a_server(item: pytest.Item) -> bool:
    """Whether it runs on a server, or asks for one and is not about an embedded store."""
    params = [each for each in _params(item) if isinstance(each, str)]
    if not _EMBEDDED.isdisjoint(params):
        return False
    fixtures = getattr(item, "fixturenames", [])
    return not DATABASES.keys().isdisjoint(params) or not _FIXTURES.isdisjoint(fixtures)


def _params(item: pytest.Item) -> list[object]:
    callspec = getattr(item, "callspec", None)
    return [] if callspec is None else list(callspec.params.values())


# The test that runs, which notes whom it asks for: not every server is a parameter of its tests.
_running: list[pytest.Item] = []


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _running.append(item)
    try:
        return (yield)
    finally:
        _running.pop()


def _note(engine: str) -> None:
    noted = _running[-1].user_properties
    if (ASKED, engine) not in noted:
        noted.append((ASKED, engine))


@_fixture(scope="session")
def server_url(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """The URL of the run's server of a kind, such as "postgres-18".

    All tests share it: nobody may stop it or change its settings.
    """
    desk = _desk(request.config)
    workerinput = getattr(request.config, "workerinput", {})
    ask = desk.ask if desk else desk_at(workerinput["desk"])

    def url(engine: str) -> str:
        offer = ask(engine)
        if offer.failure:
            pytest.fail(f"{engine}: {offer.failure}")
        if offer.reason:
            _leave_out(engine, offer.reason)
        _note(engine)
        return offer.url

    return url


@_fixture()
async def fresh_database(server_url: Callable[[str], str]) -> AsyncIterator[FreshDatabase]:
    """Makes an empty database on the run's server of a kind, and gives the URL of a store in it."""
    made: list[tuple[Kind, str]] = []

    async def make(engine: str) -> str:
        kind = KINDS[engine]
        url = await kind.make(server_url(engine))
        made.append((kind, url))
        return url

    yield make
    for kind, url in made:
        await kind.drop(url)


@_fixture()
def own_server() -> Iterator[OwnServer]:
    """Starts a server that the test may stop, crash, pause and configure as it likes."""
    with ExitStack() as stack:

        def start(engine: str, **options: Any) -> Any:
            with _leaving_out(engine):
                server = KINDS[engine].start(**options)
            stack.callback(server.close)
            _note(engine)
            return server

        yield start


@_fixture()
def own_postgres(own_server: OwnServer) -> OwnPostgres:
    """The same, for PostgreSQL."""
    return own_server


@_fixture()
def own_pgbouncer() -> Iterator[OwnPgbouncer]:
    """Starts a pooler in front of a server."""
    with ExitStack() as stack:

        def start(server: PostgresServer) -> Pgbouncer:
            with _leaving_out("pgbouncer"):
                pooler = Pgbouncer(pgbouncer(), server)
            return stack.enter_context(pooler)

        yield start


@_fixture()
def own_mongodb_set() -> Iterator[MongodbSet]:
    """A replica set of three, whose members the test may kill and pause."""
    with ExitStack() as stack:
        with _leaving_out("mongodb"):
            servers = MongodbSet(mongodb_6())
        stack.callback(servers.close)
        servers.start()
        yield servers


@_fixture(scope="module")
def cassandra_ring() -> Iterator[CassandraRing]:
    """Three servers that the tests of a module share: each restores what it did to them."""
    with _leaving_out("cassandra"):
        install = cassandra_5()
    with CassandraRing(install) as ring:
        yield ring


@_fixture()
def cassandra_datacenters() -> Iterator[CassandraRing]:
    """Two servers in two datacenters, whose names are the second numbers of their addresses."""
    with _leaving_out("cassandra"):
        install = cassandra_5()
    hosts = ("127.0.0.1", "127.1.0.1")
    with CassandraRing(install, hosts=hosts, endpoint_snitch="RackInferringSnitch") as ring:
        yield ring


@_fixture(scope="module")
def touchy_cassandra() -> Iterator[Any]:
    """A server that the tests of a module share, on which a read may meet 1,000 dead cells."""
    with ExitStack() as stack:
        with _leaving_out("cassandra"):
            server = KINDS["cassandra"].start(settings={"tombstone_failure_threshold": "1000"})
        stack.callback(server.close)
        yield server


@contextmanager
def _leaving_out(name: str) -> Iterator[None]:
    try:
        yield
    except Unavailable as reason:
        _leave_out(name, str(reason))


def _leave_out(name: str, reason: str) -> NoReturn:
    """Skip the test that needs this server; in CI nothing may be left out."""
    if os.environ.get("CI"):
        pytest.fail(f"CI needs {name}: {reason}")
    pytest.skip(f"{name}: {reason}")
