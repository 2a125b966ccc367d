"""From ``--store`` to the databases: the only place that names the concrete ones."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.databases import Databases
from bench.databases.sqlite import SqliteFiles
from bench.machine import disk_of
from duetime.stores.opening import KINDS, open_store

if TYPE_CHECKING:
    from tests.servers.server import Server


class Served(NamedTuple):
    """An engine that is a server: which of its modules and servers are ours to start."""

    schemes: tuple[str, ...]  # of the URLs of a server that somebody runs
    databases: str  # the class below this package that makes databases on it
    kind: str  # of tests/servers
    # What the administrator of a small machine would set; the rest are the engine's defaults.
    options: dict[str, Any]


_INNODB = {"innodb-buffer-pool-size": "1G", "innodb-log-buffer-size": "16M"}
SERVED = {
    "postgres": Served(
        ("postgresql", "postgres"),
        "postgres.PostgresSchemas",
        "postgres-18",
        {
            "fsync": True,
            "settings": {
                "shared_buffers": "1GB",
                "max_wal_size": "4GB",
                "maintenance_work_mem": "256MB",
                "synchronous_commit": "on",
            },
        },
    ),
    "mariadb": Served(
        ("mariadb",),
        "mysql.MysqlDatabases",
        "mariadb",
        {"fsync": True, "settings": {**_INNODB, "innodb-log-file-size": "1G"}},
    ),
    "mysql": Served(
        ("mysql", "tidb"),
        "mysql.MysqlDatabases",
        "mysql",
        {"fsync": True, "settings": {**_INNODB, "innodb-redo-log-capacity": "1G"}},
    ),
    "mongodb": Served(
        ("mongodb", "mongodb+srv"), "mongodb.MongodbDatabases", "mongodb", {"cache_gb": 1}
    ),
    "cassandra": Served(
        ("cassandra", "scylla"),
        "cassandra.CassandraKeyspaces",
        "cassandra",
        {"fsync": True, "is_long_lived": True, "heap": "2G"},
    ),
    "dynamodb": Served(("dynamodb",), "dynamodb.DynamoTables", "dynamodb", {"is_long_lived": True}),
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
        schemes = {served.schemes[0] for served in SERVED.values()}
        examples = [kind.example for kind in KINDS if kind.schemes[0] in schemes]
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
    module, _, name = served.databases.partition(".")
    databases = getattr(import_module(f"bench.databases.{module}"), name)  # drivers are optional
    if is_named_server(store):
        yield databases(store)
        return
    with _own_server(served, data) as server:
        disk = disk_of(data)
        yield databases(server.url(), pid=server.pid, disk=f"{disk.device} ({disk.kind})")


def _served(store: str) -> Served | None:
    scheme, separator, _ = store.partition("://")
    if not separator:
        return SERVED.get(store)
    return next((served for served in SERVED.values() if scheme in served.schemes), None)


def _own_server(served: Served, data: Path) -> "Server":
    from tests.servers.kinds import KINDS  # noqa: PLC0415 - they come with the tests
    from tests.servers.unavailable import Unavailable  # noqa: PLC0415

    data.chmod(0o755)  # the server may run as another user
    kind = KINDS[served.kind]
    try:
        return kind.server(kind.install(), within=data, **served.options)
    except (Unavailable, RuntimeError) as error:
        raise NoServer(
            f"no {kind.title} in {data} (as root, name a folder that `nobody` can reach with "
            f"--data; or name a server of yours with --store): {error}"
        ) from error
