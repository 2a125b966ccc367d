"""The kinds of servers that there are: a new one only adds its line to KINDS."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from tests.servers.cassandra import (
    CassandraServer,
    cassandra_5,
    drop_keyspace,
    make_keyspace,
)
from tests.servers.dynamodb import DynamoServer, drop_table, dynamodb_local, make_table
from tests.servers.installs import Install, mongodb, postgres_15, postgres_18
from tests.servers.mongodb import MongodbServer, drop_database, make_database
from tests.servers.postgres import PostgresServer, drop_schema, make_schema
from tests.servers.server import Server


@dataclass(frozen=True)
class Kind:
    """One kind of server: where it comes from, and how tests have databases of their own on it."""

    title: str  # before its version: "PostgreSQL"
    install: Callable[[], Any]  # finds or fetches its programs; Unavailable says why not
    server: Callable[..., Server]  # from the install, and options
    make: Callable[
        [str], Coroutine[Any, Any, str]
    ]  # an empty database on the server at this URL: its URL
    drop: Callable[[str], Awaitable[None]]  # what ``make`` made

    def start(self, **options: Any) -> Server:
        """Start a server of one's own."""
        server = self.server(self.install(), **options)
        try:
            server.start()
        except BaseException:
            server.close()
            raise
        return server


def _postgres(install: Callable[[], Install]) -> Kind:
    return Kind("PostgreSQL", install, PostgresServer, make_schema, drop_schema)


KINDS: dict[str, Kind] = {
    "postgres-18": _postgres(postgres_18),
    "postgres-15": _postgres(postgres_15),
    "mongodb": Kind("MongoDB", mongodb, MongodbServer, make_database, drop_database),
    "cassandra": Kind("Cassandra", cassandra_5, CassandraServer, make_keyspace, drop_keyspace),
    "dynamodb": Kind("DynamoDB Local", dynamodb_local, DynamoServer, make_table, drop_table),
}
POSTGRES = ("postgres-18", "postgres-15")
