"""From ``--store`` to the databases: the only place that names the concrete ones."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.databases import Databases
from bench.databases.sqlite import SqliteFiles
from bench.machine import disk_of
from duetime.stores.postgres.address import EXAMPLE, SCHEMES, Address

if TYPE_CHECKING:
    from tests.servers.postgres import PostgresServer

NAMES = ("sqlite", "postgres", "dynamodb")

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
    if store.startswith("dynamodb://"):
        from duetime.stores.dynamodb.address import Address as TableAddress  # noqa: PLC0415

        TableAddress.parse(store)
    elif is_named_server(store):
        Address.parse(store)
    elif store not in NAMES:
        raise UnknownStore(f"must be {', '.join(NAMES)}, or the URL of a server such as {EXAMPLE}")


def is_named_server(store: str) -> bool:
    """Tell whether it is the URL of a server that somebody runs."""
    return store.partition("://")[0] in (*SCHEMES, "dynamodb") and "://" in store


@asynccontextmanager
async def opened(store: str, data: Path) -> AsyncIterator[Databases]:
    """What the name or the URL stands for; what lies on a disk of ours lies in the folder."""
    if store == "sqlite":
        yield SqliteFiles(data)
        return
    if store.startswith("dynamodb"):
        async with _dynamodb(store) as tables:
            yield tables
        return
    from bench.databases.postgres import PostgresSchemas  # noqa: PLC0415 - its driver is optional

    if is_named_server(store):
        yield PostgresSchemas(store)
        return
    with _own_server(data) as server:
        disk = disk_of(data)
        yield PostgresSchemas(server.url(), pid=server.pid, disk=f"{disk.device} ({disk.kind})")


@asynccontextmanager
async def _dynamodb(store: str) -> AsyncIterator[Databases]:
    from bench.databases.dynamodb import DynamoTables  # noqa: PLC0415 - its driver is optional

    if is_named_server(store):
        yield DynamoTables(store)
        return
    from tests.servers.dynamodb import DynamoServer, dynamodb_local  # noqa: PLC0415
    from tests.servers.unavailable import Unavailable  # noqa: PLC0415

    try:
        server = DynamoServer(dynamodb_local())
    except (Unavailable, RuntimeError) as error:
        raise NoServer(f"no DynamoDB Local: {error}") from error
    with server:
        yield DynamoTables(server.url(), pid=server.pid, version=server.version)


def _own_server(data: Path) -> "PostgresServer":
    from tests.servers.installs import postgres_18  # noqa: PLC0415 - it comes with the tests
    from tests.servers.postgres import PostgresServer  # noqa: PLC0415
    from tests.servers.unavailable import Unavailable  # noqa: PLC0415

    data.chmod(0o755)  # the server may run as another user
    try:
        return PostgresServer(postgres_18(), fsync=True, settings=SETTINGS, within=data)
    except (Unavailable, RuntimeError) as error:
        raise NoServer(
            f"no PostgreSQL in {data} (as root, name a folder that `nobody` can reach with "
            f"--data; or name a server of yours with --store): {error}"
        ) from error
