"""The address of a PostgreSQL database: a URL as libpq takes it, and a few options of our own."""

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from duetime.errors import ConfigurationError

SCHEMES = ("postgresql", "postgres")
EXAMPLE = "postgresql://user:password@host:5432/database"

DEFAULT_SCHEMA = "duetime"
DEFAULT_POOL_SIZE = 10
POOL_SIZES = range(2, 1001)

# A channel for news has the schema's name in it, and PostgreSQL's names end at 63 bytes.
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,47}", re.ASCII)
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_LAST_PORT = 65535
_OPTION = re.compile(r"[a-z_]{1,60}", re.ASCII)
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
        """Read a URL, whose options win over those given beside it.

        ConfigurationError names the option that is wrong, and never the password.
        """
        parts = _split(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        chosen = options.pop("schema", schema or DEFAULT_SCHEMA)
        if not _SCHEMA.fullmatch(chosen):
            raise ConfigurationError(
                "DATABASE_SCHEMA: must be up to 48 lower-case letters, digits and underscores, "
                f"and not begin with a digit or pg_, not {chosen[:60]!r}"
            )
        size = options.pop("pool_size", str(pool_size or DEFAULT_POOL_SIZE))
        if not (_PORT.fullmatch(size) and int(size) in POOL_SIZES):
            raise ConfigurationError(f"pool_size: must be from 2 to 1000, not {size[:60]!r}")
        pooler = options.pop("pooler", "none")
        if pooler not in {"none", "transaction"}:
            raise ConfigurationError(f"pooler: must be transaction or none, not {pooler[:60]!r}")
        _check_passed_on(options)
        options.setdefault("application_name", "duetime")
        if "," in parts.netloc or "," in options.get("host", ""):
            # Of several hosts, only the one that takes writes will do.
            options.setdefault("target_session_attrs", "read-write")
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items())
        dsn = f"postgresql://{parts.netloc}{parts.path}" + (f"?{query}" if query else "")
        return cls(dsn, chosen, int(size), pooler == "transaction")


def _split(url: str) -> SplitResult:
    """Take the URL apart, and refuse one that the driver would take apart elsewhere."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigurationError(f"a PostgreSQL URL looks like {EXAMPLE}") from None
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    is_cut_short = "#" in url or "@" in parts.path or not all(map(_OPTION.fullmatch, names))
    *users, hosts = parts.netloc.split("@")
    if is_cut_short or len(users) > 1 or not all(map(_has_a_port, hosts.split(","))):
        # Not repeated, not even in part: whatever was cut off may be the end of a password.
        raise ConfigurationError(
            f"a PostgreSQL URL looks like {EXAMPLE}?option=value, with a number as the port; "
            "in a user or password, write @ as %40, / as %2F, ? as %3F, # as %23 and % as %25"
        )
    return parts


def _has_a_port(host: str) -> bool:
    """Tell whether what follows the host, if anything does, is a port."""
    _, colon, port = host.rpartition("]")[2].partition(":")
    return not colon or (bool(_PORT.fullmatch(port)) and 0 < int(port) <= _LAST_PORT)


def _check_passed_on(options: dict[str, str]) -> None:
    """Refuse what the driver would not understand, or only with a riddle."""
    if unknown := options.keys() - _PASSED_ON:
        known = ", ".join(sorted({"schema", "pool_size", "pooler", *_PASSED_ON}))
        raise ConfigurationError(
            f"{min(unknown)}: no such option of a PostgreSQL URL; there are {known}"
        )
    if not all(map(_has_a_port, options.get("host", "").split(","))):
        raise ConfigurationError("host: must be host or host:port, with a number as the port")
    for port in options.get("port", "1").split(","):
        if not _has_a_port(f":{port}"):
            raise ConfigurationError(f"port: must be a number up to 65535, not {port[:60]!r}")
    for name in _FILES:
        if name in options and not Path(options[name]).is_file():
            raise ConfigurationError(f"{name}: there is no file {options[name][:200]!r}")
