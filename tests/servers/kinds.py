"""The kinds of servers that there are: a new one only adds its line to KINDS."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from tests.servers import cassandra, dynamodb, mongodb, mysql
from tests.servers.installs import Install, mariadb, postgres_15, postgres_18
from tests.servers.installs import mongodb as mongodb_6
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
    "mariadb": Kind(
        "MariaDB", mariadb, mysql.MariadbServer, mysql.make_database, mysql.drop_database
    ),
    "mongodb": Kind(
        "MongoDB",
        mongodb_6,
        mongodb.MongodbServer,
        mongodb.make_database,
        mongodb.drop_database,
    ),
    "cassandra": Kind(
        "Cassandra",
        cassandra.cassandra_5,
        cassandra.CassandraServer,
        cassandra.make_keyspace,
        cassandra.drop_keyspace,
    ),
    "dynamodb": Kind(
        "DynamoDB Local",
        dynamodb.dynamodb_local,
        dynamodb.DynamoServer,
        dynamodb.make_table,
        dynamodb.drop_table,
    ),
}
POSTGRES = ("postgres-18", "postgres-15")
MYSQL = ("mariadb",)
