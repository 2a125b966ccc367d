"""The kinds of servers that there are: a new one only adds its line to DATABASES or to KINDS."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.servers import cassandra, dynamodb, mongodb, mysql, nats, postgres, redis
from tests.servers.install import Install
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
    # Options of the one that all tests of a run share, which nobody stops or crashes.
    shared: Mapping[str, Any] = field(default_factory=dict)
    variable: str = "DATABASE_URL"  # which setting its URL is for

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
    return Kind(
        "PostgreSQL",
        install,
        postgres.PostgresServer,
        postgres.make_schema,
        postgres.drop_schema,
    )


def _mysql(title: str, install: Callable[[], Install], server: Callable[..., Server]) -> Kind:
    return Kind(title, install, server, mysql.make_database, mysql.drop_database)


DATABASES: dict[str, Kind] = {
    "postgres-18": _postgres(postgres.postgres_18),
    "postgres-15": _postgres(postgres.postgres_15),
    "mariadb": _mysql("MariaDB", mysql.mariadb, mysql.MariadbServer),
    "mysql": _mysql("MySQL", mysql.mysql, mysql.MysqlServer),
    "mongodb": Kind(
        "MongoDB",
        mongodb.mongodb_6,
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
        shared={"in_memory": True},
    ),
    "redis": Kind(
        "Redis",
        redis.redis_7,
        redis.RedisServer,
        redis.make_database,
        redis.drop_database,
    ),
}
KINDS: dict[str, Kind] = {
    **DATABASES,
    "nats": Kind(
        "NATS", nats.nats_2, nats.NatsServer, nats.make_place, nats.drop_place, variable="NATS_URL"
    ),
}
POSTGRES = ("postgres-18", "postgres-15")
MYSQL = ("mariadb", "mysql")
