"""The address of a PostgreSQL database: a URL as libpq takes it, and a few options of our own."""

import re
from typing import NamedTuple
from urllib.parse import quote

from duetime.errors import ConfigurationError
from duetime.stores.url import POOL_SIZES, DatabaseUrl, Host

EXAMPLE = "postgresql://user:password@host:5432/database"

DEFAULT_SCHEMA = "duetime"
DEFAULT_POOL_SIZE = 10

# A channel for news has the schema's name in it, and PostgreSQL's names end at 63 bytes.
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,47}", re.ASCII)
_OURS = ("schema", "pool_size", "pooler")
# What asyncpg makes of the rest. Anything else would become a setting of the session.
_PASSED_ON = frozenset(
    {
        "application_name",
        "dbname",
        "host",
        "krbsrvname",
        "gsslib",
        "options",
        "passfile",
        "password",
        "port",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslnegotiation",
        "sslpassword",
        "sslrootcert",
        "ssl_max_protocol_version",
        "ssl_min_protocol_version",
        "target_session_attrs",
        "user",
    }
)
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")


class Address(NamedTuple):
    """Where the database is, and how to work with it."""

    dsn: str  # for the driver; it may hold a password
    schema: str = DEFAULT_SCHEMA  # several installations share a database by this
    pool_size: int = DEFAULT_POOL_SIZE
    is_pooled: bool = False  # behind a pooler that lends connections for one transaction only

    @classmethod
    def parse(
        cls, url: str, *, schema: str | None = None, pool_size: int | None = None
    ) -> "Address":
        """Read a URL, whose options win over those given beside it."""
        found = DatabaseUrl(url, engine="PostgreSQL", example=EXAMPLE, at_in_options=True)
        options = found.options(sorted({*_OURS, *_PASSED_ON}))
        chosen = options.text("schema")
        chosen = schema or DEFAULT_SCHEMA if chosen is None else chosen
        if not _SCHEMA.fullmatch(chosen):
            raise ConfigurationError(
                "DATABASE_SCHEMA: must be up to 48 lower-case letters, digits and underscores, "
                f"and not begin with a digit or pg_, not {chosen[:60]!r}"
            )
        size = options.number("pool_size", pool_size or DEFAULT_POOL_SIZE, POOL_SIZES)
        is_pooled = options.choice("pooler", ("transaction", "none"), "none") == "transaction"
        for name in _FILES:
            options.file(name)
        passed_on = options.besides(_OURS)
        _check_hosts(passed_on)
        passed_on.setdefault("application_name", "duetime")
        if "," in found.netloc or "," in passed_on.get("host", ""):
            # Of several hosts, only the one that takes writes will do.
            passed_on.setdefault("target_session_attrs", "read-write")
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in passed_on.items())
        # Without a database in the path, one may be named by dbname, or by the environment.
        path = f"/{found.path}" if found.path else ""
        return cls(f"postgresql://{found.netloc}{path}?{query}", chosen, size, is_pooled)


def _check_hosts(options: dict[str, str]) -> None:
    """Refuse what the driver would understand only with a riddle."""
    if not all(map(Host.parse, options.get("host", "").split(","))):
        raise ConfigurationError("host: must be host or host:port, with a number as the port")
    for port in options.get("port", "1").split(","):
        if not port or Host.parse(f":{port}") is None:
            raise ConfigurationError(f"port: must be a number up to 65535, not {port[:60]!r}")
