"""From a URL to a store: the only place in the package that names the concrete ones.

Drivers are imported when a store is opened, since most installations have only one of them.
"""

from collections.abc import Callable
from typing import NamedTuple

from duetime.clock import Millis
from duetime.errors import ConfigurationError
from duetime.stores import Store, memory
from duetime.stores.cassandra import traits as cassandra
from duetime.stores.dynamodb import traits as dynamodb
from duetime.stores.mongodb import traits as mongodb
from duetime.stores.mysql import traits as mysql
from duetime.stores.postgres import traits as postgres
from duetime.stores.redis import traits as redis
from duetime.stores.sqlite import traits as sqlite
from duetime.stores.traits import Traits


class Options(NamedTuple):
    """What settings say beside the URL; a store takes of them what concerns it."""

    sqlite_synchronous: str = "full"
    schema: str | None = None
    pool_size: int | None = None
    retention: Millis | None = None  # for how long finished timers are kept
    must_exist: bool = False  # take it as it is: ``migrate`` makes nothing, and changes nothing


class Kind(NamedTuple):
    """One kind of store: what its URLs look like, and how one is made of them."""

    schemes: tuple[str, ...]
    example: str
    open: Callable[[str, Options], Store]
    traits: Traits
    extra: str | None = None  # what brings its driver
    driver: str | None = None  # the package of that name


def _memory(url: str, _options: Options) -> Store:
    if url.partition("://")[2].strip("/"):
        raise ConfigurationError(f"memory:// takes no name; this version supports {supported()}")
    return memory.MemoryStore()


def _sqlite(url: str, options: Options) -> Store:
    from duetime.stores.sqlite.store import SqliteStore  # noqa: PLC0415

    rest = url.partition("://")[2]
    path = rest.removeprefix("/")
    if path == rest or not path or path.startswith(":"):
        raise ConfigurationError(
            f"a sqlite URL must name a file after sqlite:///; this version supports {supported()}"
        )
    return SqliteStore(path, synchronous=options.sqlite_synchronous, must_exist=options.must_exist)


def _postgres(url: str, options: Options) -> Store:
    from duetime.stores.postgres.address import Address  # noqa: PLC0415
    from duetime.stores.postgres.store import PostgresStore  # noqa: PLC0415

    address = Address.parse(url, schema=options.schema, pool_size=options.pool_size)
    return PostgresStore(address, must_exist=options.must_exist)


def _mongodb(url: str, options: Options) -> Store:
    from duetime.stores.mongodb.address import Address  # noqa: PLC0415
    from duetime.stores.mongodb.store import MongodbStore  # noqa: PLC0415

    address = Address.parse(url, pool_size=options.pool_size)
    return MongodbStore(address, must_exist=options.must_exist)


def _cassandra(url: str, options: Options) -> Store:
    from duetime.stores.cassandra.address import Address  # noqa: PLC0415
    from duetime.stores.cassandra.store import CassandraStore  # noqa: PLC0415

    address = Address.parse(url, schema=options.schema)
    return CassandraStore(address, retention=options.retention, must_exist=options.must_exist)


def _dynamodb(url: str, options: Options) -> Store:
    from duetime.stores.dynamodb.address import Address  # noqa: PLC0415
    from duetime.stores.dynamodb.store import DynamoStore  # noqa: PLC0415

    address = Address.parse(url, pool_size=options.pool_size)
    return DynamoStore(address, options.retention, must_exist=options.must_exist)


def _mysql(url: str, options: Options) -> Store:
    from duetime.stores.mysql.address import Address  # noqa: PLC0415
    from duetime.stores.mysql.store import MysqlStore  # noqa: PLC0415

    address = Address.parse(url, pool_size=options.pool_size)
    return MysqlStore(address, must_exist=options.must_exist)


def _redis(url: str, options: Options) -> Store:
    from duetime.stores.redis.address import Address  # noqa: PLC0415
    from duetime.stores.redis.store import RedisStore  # noqa: PLC0415

    address = Address.parse(url, pool_size=options.pool_size)
    return RedisStore(address, must_exist=options.must_exist)


KINDS = (
    Kind(
        ("sqlite",),
        "sqlite:///relative/path.db, sqlite:////absolute/path.db",
        _sqlite,
        sqlite.TRAITS,
    ),
    Kind(
        ("postgresql", "postgres"),
        "postgresql://user:password@host:5432/database",
        _postgres,
        postgres.TRAITS,
        extra="postgres",
        driver="asyncpg",
    ),
    Kind(
        ("mysql", "mariadb", "tidb"),
        "mysql://user:password@host:3306/database (for mariadb:// and tidb:// too)",
        _mysql,
        mysql.TRAITS,
        extra="mysql",
        driver="asyncmy",
    ),
    Kind(
        ("mongodb", "mongodb+srv"),
        "mongodb://user:password@host:27017/database?replicaSet=rs",
        _mongodb,
        mongodb.TRAITS,
        extra="mongodb",
        driver="pymongo",
    ),
    Kind(
        ("cassandra", "scylla"),
        "cassandra://user:password@host1,host2:9042/keyspace?datacenter=dc1",
        _cassandra,
        cassandra.TRAITS,
        extra="cassandra",
        driver="cassandra",
    ),
    Kind(
        ("dynamodb",),
        "dynamodb://region/table",
        _dynamodb,
        dynamodb.TRAITS,
        extra="dynamodb",
        driver="botocore",
    ),
    Kind(
        ("redis", "rediss"),
        "redis://user:password@host:6379/0 (rediss:// speaks TLS)",
        _redis,
        redis.TRAITS,
        extra="redis",
        driver="redis",
    ),
    Kind(
        ("memory",),
        "memory:// (nothing survives the process: for tests and trials)",
        _memory,
        memory.TRAITS,
    ),
)


def open_store(url: str, options: Options = Options()) -> Store:  # noqa: B008 - it is frozen
    """Make the store that a URL names; its ``migrate`` connects it.

    ``sqlite:///data/duetime.db`` is relative to the working directory, and one more slash makes
    it absolute. Messages never repeat the URL, for it may hold a password.
    """
    kind = kind_of(url)
    try:
        return kind.open(url, options)
    except ImportError as error:
        raise ConfigurationError(
            f"{kind.schemes[0]}:// needs its driver: "
            f"install it with pip install 'duetime[{kind.extra}]'"
        ) from error


def kind_of(url: str) -> Kind:
    """The kind of store that a URL names."""
    scheme, separator, _ = url.partition("://")
    for kind in KINDS if separator else ():
        if scheme in kind.schemes:
            return kind
    name = f"no store for {scheme}://" if separator else "the database URL has no scheme"
    raise ConfigurationError(f"{name}; this version supports {supported()}")


def supported() -> str:
    """What URLs look like, of every kind."""
    *examples, last = (kind.example for kind in KINDS)
    return f"{', '.join(examples)}, or {last}"
