"""From ``--store`` to the databases: the only place that names the concrete ones."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.databases import Databases
from bench.databases.sqlite import SqliteFiles
from bench.machine import disk_of
from duetime.stores.mongodb import address as mongodb
from duetime.stores.postgres import address as postgres

if TYPE_CHECKING:
    from tests.servers.server import Server

NAMES = ("sqlite", "postgres", "mongodb")

# By scheme, what reads the URL of a server.
_PARSERS: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(postgres.SCHEMES, postgres.Address.parse),
    **dict.fromkeys(mongodb.SCHEMES, mongodb.Address.parse),
}

# What the administrator of a small machine would set; the rest are PostgreSQL's defaults.
SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "maintenance_work_mem": "256MB",
    "synchronous_commit": "on",
}


class UnknownStore(Exception):
    """``--store`` names none."""


class NoServer(Exception):
    """The server of our own cannot be started here."""


def check(store: str) -> None:
    """Raise unless it names a store. Messages never repeat a URL, for it may hold a password."""
    if is_named_server(store):
        _PARSERS[_scheme(store)](store)
    elif store not in NAMES:
        raise UnknownStore(
            f"must be {', '.join(NAMES)}, or the URL of a server such as {postgres.EXAMPLE} "
            f"or {mongodb.EXAMPLE}"
        )


def is_named_server(store: str) -> bool:
    """Tell whether it is the URL of a server that somebody runs."""
    return "://" in store and _scheme(store) in _PARSERS


def _scheme(url: str) -> str:
    return url.partition("://")[0]


@asynccontextmanager
async def opened(store: str, data: Path) -> AsyncIterator[Databases]:
    """What the name or the URL stands for; what lies on a disk of ours lies in the folder."""
    if store == "sqlite":
        yield SqliteFiles(data)
        return
    databases = _databases(store)
    if is_named_server(store):
        yield databases(store)
        return
    with _own_server(store, data) as server:
        disk = disk_of(data)
        yield databases(server.url(), pid=server.pid, disk=f"{disk.device} ({disk.kind})")


def _databases(store: str) -> Callable[..., Databases]:
    """What makes databases on a server of this kind; its driver is optional."""
    if store == "mongodb" or _scheme(store) in mongodb.SCHEMES:
        from bench.databases.mongodb import MongodbDatabases  # noqa: PLC0415

        return MongodbDatabases
    from bench.databases.postgres import PostgresSchemas  # noqa: PLC0415

    return PostgresSchemas


def _own_server(store: str, data: Path) -> "Server":
    from tests.servers import installs  # noqa: PLC0415 - it comes with the tests
    from tests.servers.unavailable import Unavailable  # noqa: PLC0415

    data.chmod(0o755)  # the server may run as another user
    try:
        if store == "mongodb":
            from tests.servers.mongodb import MongodbServer  # noqa: PLC0415

            return MongodbServer(installs.mongodb(), cache_gb=1, within=data)
        from tests.servers.postgres import PostgresServer  # noqa: PLC0415

        return PostgresServer(installs.postgres_18(), fsync=True, settings=SETTINGS, within=data)
    except (Unavailable, RuntimeError) as error:
        raise NoServer(
            f"no server for {store} in {data} (as root, name a folder that `nobody` can reach with "
            f"--data; or name a server of yours with --store): {error}"
        ) from error
