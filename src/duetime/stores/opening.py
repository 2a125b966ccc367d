"""From a URL to a store: the only place in the package that names the concrete ones."""

from duetime.errors import ConfigurationError
from duetime.stores import Store

_SUPPORTED = (
    "this version supports sqlite:///relative/path.db, sqlite:////absolute/path.db, "
    "postgresql://user:password@host:5432/database, "
    "and memory:// (nothing survives the process: for tests and trials)"
)


def open_store(
    url: str,
    *,
    sqlite_synchronous: str = "full",
    schema: str | None = None,
    pool_size: int | None = None,
) -> Store:
    """Make the store that a URL names; its ``migrate`` connects it.

    ``sqlite:///data/duetime.db`` is relative to the working directory, and one more slash makes
    it absolute. ``memory://`` is not durable. ``schema`` and ``pool_size`` are PostgreSQL's, unless
    its URL names others. Messages never repeat the URL, for it may hold a
    password.
    """
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "memory" and not rest.strip("/"):
        from duetime.stores.memory import MemoryStore  # noqa: PLC0415

        return MemoryStore()
    if separator and scheme == "sqlite":
        path = rest.removeprefix("/")
        if path == rest or not path or path.startswith(":"):
            raise ConfigurationError(
                f"a sqlite URL must name a file after sqlite:///; {_SUPPORTED}"
            )
        from duetime.stores.sqlite.store import SqliteStore  # noqa: PLC0415

        return SqliteStore(path, synchronous=sqlite_synchronous)
    if separator and scheme in {"postgresql", "postgres"}:
        return _open_postgres(url, schema, pool_size)
    name = f"no store for {scheme}://" if separator else "the database URL has no scheme"
    raise ConfigurationError(f"{name}; {_SUPPORTED}")


def _open_postgres(url: str, schema: str | None, pool_size: int | None) -> Store:
    try:
        from duetime.stores.postgres.address import Address  # noqa: PLC0415
        from duetime.stores.postgres.store import PostgresStore  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            "PostgreSQL needs its driver: install it with pip install 'duetime[postgres]'"
        ) from error
    return PostgresStore(Address.parse(url, schema=schema, pool_size=pool_size))
