"""The address of a PostgreSQL database: a URL as libpq takes it, and a few options of our own."""

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

from duetime.errors import ConfigurationError

SCHEMES = ("postgresql", "postgres")
EXAMPLE = "postgresql://user:password@host:5432/database"

DEFAULT_SCHEMA = "duetime"
DEFAULT_POOL_SIZE = 10
POOL_SIZES = range(2, 1001)

# A channel for news has the schema's name in it, and PostgreSQL's names end at 63 bytes.
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,47}", re.ASCII)
# What asyncpg makes of the rest. Anything else would become a setting of the session.
_PASSED_ON = frozenset(
    {
        "application_name",
        "direct_tls",
        "dbname",
        "host",
        "hostaddr",
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
        """Read a URL, whose options win over those given beside it.

        ConfigurationError names the option that is wrong, and never the password.
        """
        try:
            parts = urlsplit(url)
        except ValueError:
            raise ConfigurationError(f"a PostgreSQL URL looks like {EXAMPLE}") from None
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        chosen = options.pop("schema", schema or DEFAULT_SCHEMA)
        if not _SCHEMA.fullmatch(chosen):
            raise ConfigurationError(
                "DATABASE_SCHEMA: must be up to 48 lower-case letters, digits and underscores, "
                f"and not begin with a digit or pg_, not {chosen[:60]!r}"
            )
        size = options.pop("pool_size", str(pool_size or DEFAULT_POOL_SIZE))
        if not (size.isascii() and size.isdigit() and int(size) in POOL_SIZES):
            raise ConfigurationError(f"pool_size: must be from 2 to 1000, not {size[:60]!r}")
        pooler = options.pop("pooler", "none")
        if pooler not in {"none", "transaction"}:
            raise ConfigurationError(f"pooler: must be transaction or none, not {pooler[:60]!r}")
        if unknown := options.keys() - _PASSED_ON:
            known = ", ".join(sorted({"schema", "pool_size", "pooler", *_PASSED_ON}))
            raise ConfigurationError(
                f"{min(unknown)[:60]}: no such option of a PostgreSQL URL; there are {known}"
            )
        if "," in parts.netloc or "," in options.get("host", ""):
            # Of several hosts, only the one that takes writes will do.
            options.setdefault("target_session_attrs", "read-write")
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items())
        dsn = f"postgresql://{parts.netloc}{parts.path}" + (f"?{query}" if query else "")
        return cls(dsn, chosen, int(size), pooler == "transaction")
