"""From a URL to a store: the only place in the package that names the concrete ones."""

from collections.abc import Callable
from typing import NamedTuple

from duetime.clock import Millis
from duetime.errors import ConfigurationError
from duetime.stores import Store


class Options(NamedTuple):
    """What settings say beside the URL; a store takes of them what concerns it."""

    sqlite_synchronous: str = "full"
    schema: str | None = None
    pool_size: int | None = None
    retention: Millis | None = None  # for how long finished timers are kept
    must_exist: bool = False  # take it as it is: ``migrate`` makes nothing, and changes nothing


class Engine(NamedTuple):
    """One kind of store: what its URLs look like, and how one is made of them."""

    schemes: tuple[str, ...]
    example: str
    open: Callable[[str, Options], Store]
    extra: str | None = None  # what brings its driver


def _memory(url: str, _options: Options) -> Store:
    from duetime.stores.memory import MemoryStore  # noqa: PLC0415

    if url.partition("://")[2].strip("/"):
        raise ConfigurationError(f"memory:// takes no name; {_supported()}")
    return MemoryStore()


def _sqlite(url: str, options: Options) -> Store:
    from duetime.stores.sqlite.store import SqliteStore  # noqa: PLC0415

    rest = url.partition("://")[2]
    path = rest.removeprefix("/")
    if path == rest or not path or path.startswith(":"):
        raise ConfigurationError(f"a sqlite URL must name a file after sqlite:///; {_supported()}")
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


ENGINES = (
    Engine(("sqlite",), "sqlite:///relative/path.db, sqlite:////absolute/path.db", _sqlite),
    Engine(
        ("postgresql", "postgres"),
        "postgresql://user:password@host:5432/database",
        _postgres,
        "postgres",
    ),
    Engine(
        ("mysql", "mariadb", "tidb"),
        "mysql://user:password@host:3306/database (for mariadb:// and tidb:// too)",
        _mysql,
        "mysql",
    ),
    Engine(
        ("mongodb", "mongodb+srv"),
        "mongodb://user:password@host:27017/database?replicaSet=rs",
        _mongodb,
        "mongodb",
    ),
    Engine(
        ("cassandra", "scylla"),
        "cassandra://user:password@host1,host2:9042/keyspace?datacenter=dc1",
        _cassandra,
        "cassandra",
    ),
    Engine(("dynamodb",), "dynamodb://region/table", _dynamodb, "dynamodb"),
    Engine(("memory",), "memory:// (nothing survives the process: for tests and trials)", _memory),
)


def open_store(url: str, options: Options = Options()) -> Store:  # noqa: B008 - it is frozen
    """Make the store that a URL names; its ``migrate`` connects it.

    ``sqlite:///data/duetime.db`` is relative to the working directory, and one more slash makes
    it absolute. Messages never repeat the URL, for it may hold a password.
    """
    scheme, separator, _ = url.partition("://")
    for engine in ENGINES if separator else ():
        if scheme in engine.schemes:
            return _opened(engine, url, options)
    name = f"no store for {scheme}://" if separator else "the database URL has no scheme"
    raise ConfigurationError(f"{name}; {_supported()}")


def _opened(engine: Engine, url: str, options: Options) -> Store:
    try:
        return engine.open(url, options)
    except ImportError as error:
        raise ConfigurationError(
            f"{engine.schemes[0]}:// needs its driver: "
            f"install it with pip install 'duetime[{engine.extra}]'"
        ) from error


def _supported() -> str:
    *examples, last = (engine.example for engine in ENGINES)
    return f"this version supports {', '.join(examples)}, and {last}"
