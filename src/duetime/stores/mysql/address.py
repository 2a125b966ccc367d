"""The address of a MySQL database: a URL, and a few options."""

import re
import ssl
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from duetime.errors import ConfigurationError

SCHEMES = ("mysql", "mariadb", "tidb")
EXAMPLE = "mysql://user:password@host:3306/database"

DEFAULT_PORT = 3306
DEFAULT_POOL_SIZE = 10
POOL_SIZES = range(2, 1001)

# As MySQL's own tools call them, from no TLS to a server that must prove who it is.
SSL_MODES = ("disabled", "required", "verify_ca", "verify_identity")
OPTIONS = ("pool_size", "ssl_ca", "ssl_cert", "ssl_key", "ssl_mode")

_NUMBER = re.compile(r"[0-9]{1,5}", re.ASCII)
_OPTION = re.compile(r"[a-z_]{1,60}", re.ASCII)


class Address(NamedTuple):
    """Where the database is, and how to work with it."""

    host: str
    port: int
    user: str
    password: str
    database: str
    pool_size: int = DEFAULT_POOL_SIZE
    tls: ssl.SSLContext | None = None

    def __repr__(self) -> str:
        """Where it is, without the password."""
        return f"Address({self.host!r}, {self.port}, {self.database!r})"

    @classmethod
    def parse(cls, url: str, *, pool_size: int | None = None) -> "Address":
        """Read a URL, whose options win over those given beside it.

        ConfigurationError names the option that is wrong, and never the password.
        """
        parts = _split(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := options.keys() - set(OPTIONS):
            raise ConfigurationError(
                f"{min(unknown)}: no such option of a MySQL URL; there are {', '.join(OPTIONS)}"
            )
        size = options.pop("pool_size", str(pool_size or DEFAULT_POOL_SIZE))
        if not (_NUMBER.fullmatch(size) and int(size) in POOL_SIZES):
            raise ConfigurationError(f"pool_size: must be from 2 to 1000, not {size[:60]!r}")
        database = unquote(parts.path.removeprefix("/"))
        if not database or "/" in database:
            raise ConfigurationError(f"a MySQL URL names one database, like {EXAMPLE}")
        return cls(
            parts.hostname or "127.0.0.1",
            parts.port or DEFAULT_PORT,
            unquote(parts.username or ""),
            unquote(parts.password or ""),
            database,
            int(size),
            _tls(options),
        )


def _split(url: str) -> SplitResult:
    """Take the URL apart, and refuse one that falls apart in the wrong place."""
    try:
        parts = urlsplit(url)
        is_whole = parts.port != 0
    except ValueError:
        is_whole = False
    if is_whole:
        names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
        is_whole = (
            "#" not in url
            and "@" not in parts.path
            and parts.netloc.count("@") < 2  # noqa: PLR2004 - one before the host
            and "," not in parts.netloc
            and all(map(_OPTION.fullmatch, names))
        )
    if not is_whole:
        # Not repeated, not even in part: whatever was cut off may be the end of a password.
        raise ConfigurationError(
            f"a MySQL URL looks like {EXAMPLE}?option=value, with one host and a number as the "
            "port; in a user or password, write @ as %40, / as %2F, ? as %3F, # as %23 and % as %25"
        )
    return parts


def _tls(options: dict[str, str]) -> ssl.SSLContext | None:
    for name in ("ssl_ca", "ssl_cert", "ssl_key"):
        if name in options and not Path(options[name]).is_file():
            raise ConfigurationError(f"{name}: there is no file {options[name][:200]!r}")
    mode = options.get("ssl_mode", "verify_identity" if "ssl_ca" in options else "disabled")
    if mode not in SSL_MODES:
        raise ConfigurationError(f"ssl_mode: must be one of {', '.join(SSL_MODES)}")
    if mode == "disabled":
        if unused := sorted(options.keys() - {"ssl_mode"}):
            raise ConfigurationError(f"{unused[0]}: has no meaning with ssl_mode disabled")
        return None
    context = ssl.create_default_context()
    context.check_hostname = mode == "verify_identity"
    context.verify_mode = ssl.CERT_NONE if mode == "required" else ssl.CERT_REQUIRED
    try:
        if "ssl_ca" in options:
            context.load_verify_locations(options["ssl_ca"])
        if "ssl_cert" in options:
            context.load_cert_chain(options["ssl_cert"], options.get("ssl_key"))
    except (ssl.SSLError, OSError) as error:
        raise ConfigurationError(f"ssl_ca, ssl_cert or ssl_key cannot be used: {error}") from error
    return context
