"""From ``--store`` to the databases: the only place that names the concrete ones."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from bench.databases import Databases
from bench.databases.served import ServedDatabases
from bench.databases.sqlite import SqliteFiles
from duetime.benching.machine import disk_of
from duetime.errors import ConfigurationError
from duetime.stores.opening import KINDS, kind_of, open_store

if TYPE_CHECKING:
    from tests.servers.server import Server


# The classes below this package that make databases on a server. They are loaded when they are
# needed, for their drivers may not be installed.
SERVED = {
    "postgres": "postgres.PostgresSchemas",
    "mariadb": "mysql.MariadbDatabases",
    "mysql": "mysql.MysqlDatabases",
    "mongodb": "mongodb.MongodbDatabases",
    "cassandra": "cassandra.CassandraKeyspaces",
    "dynamodb": "dynamodb.DynamoTables",
}
NAMES = ("sqlite", *SERVED)


class UnknownStore(Exception):
    """``--store`` names none."""


class NoServer(Exception):
    """The server of our own cannot be started here."""


def check(store: str) -> None:
    """Raise unless it names a store. Messages never repeat a URL, for it may hold a password."""
    if is_named_server(store):
        open_store(store)  # nothing is opened before its migrate
    elif store not in NAMES:
        examples = [kind.example for kind in KINDS if kind.extra in SERVED]
        raise UnknownStore(
            f"must be {', '.join(NAMES)}, or the URL of a server such as {' or '.join(examples)}"
        )


def is_named_server(store: str) -> bool:
    """Tell whether it is the URL of a server that somebody runs."""
    return "://" in store and _served(store) is not None


@asynccontextmanager
async def opened(store: str, data: Path) -> AsyncIterator[Databases]:
    """What the name or the URL stands for; what lies on a disk of ours lies in the folder."""
    served = _served(store)
    if served is None:
        yield SqliteFiles(data)
        return
    module, _, name = served.partition(".")
    databases: type[ServedDatabases] = getattr(import_module(f"bench.databases.{module}"), name)
    if is_named_server(store):
        yield databases(store)
        return
    with _own_server(databases, data) as server:
        disk = disk_of(data)
        yield databases(server.url(), pid=server.pid, disk=f"{disk.device} ({disk.kind})")


def _served(store: str) -> str | None:
    if "://" not in store:
        return SERVED.get(store)
    try:
        return SERVED.get(kind_of(store).extra or "")  # named as what brings its driver
    except ConfigurationError:
        return None


def _own_server(databases: type[ServedDatabases], data: Path) -> "Server":
    from tests.servers.kinds import KINDS  # noqa: PLC0415 - they come with the tests
    from tests.servers.unavailable import Unavailable  # noqa: PLC0415

    data.chmod(0o755)  # the server may run as another user
    kind = KINDS[databases.server]
    try:
        return kind.server(kind.install(), within=data, **databases.server_options)
    except (Unavailable, RuntimeError) as error:
        raise NoServer(
            f"no {kind.title} in {data} (as root, name a folder that `nobody` can reach with "
            f"--data; or name a server of yours with --store): {error}"
        ) from error
