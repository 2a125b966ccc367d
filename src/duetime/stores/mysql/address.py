"""The address of a MySQL database: a URL, and a few options."""

import ssl
from typing import NamedTuple
from urllib.parse import unquote

from duetime.errors import ConfigurationError
from duetime.stores.url import POOL_SIZES, DatabaseUrl, UrlOptions

EXAMPLE = "mysql://user:password@host:3306/database"

DEFAULT_PORT = 3306
DEFAULT_POOL_SIZE = 10

# As MySQL's own tools call them, from no TLS to a server that must prove who it is.
SSL_MODES = ("disabled", "required", "verify_ca", "verify_identity")
_FILES = ("ssl_ca", "ssl_cert", "ssl_key")
OPTIONS = ("pool_size", *_FILES, "ssl_mode")


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
        """Read a URL, whose options win over those given beside it."""
        found = DatabaseUrl(url, engine="MySQL", example=EXAMPLE)
        options = found.options(OPTIONS)
        if len(found.hosts) != 1:
            raise found.broken()
        database = unquote(found.path)
        if not database or "/" in database:
            raise ConfigurationError(f"a MySQL URL names one database, like {EXAMPLE}")
        [(host, port)] = found.hosts
        return cls(
            host or "127.0.0.1",
            port or DEFAULT_PORT,
            found.user or "",
            found.password or "",
            database,
            options.number("pool_size", pool_size or DEFAULT_POOL_SIZE, POOL_SIZES),
            _tls(options),
        )


def _tls(options: UrlOptions) -> ssl.SSLContext | None:
    authority, certificate, key = (options.file(name) for name in _FILES)
    mode = options.choice("ssl_mode", SSL_MODES, "verify_identity" if authority else "disabled")
    if mode == "disabled":
        if unused := [name for name in _FILES if name in options]:
            raise ConfigurationError(f"{unused[0]}: has no meaning with ssl_mode disabled")
        return None
    context = ssl.create_default_context()
    context.check_hostname = mode == "verify_identity"
    context.verify_mode = ssl.CERT_NONE if mode == "required" else ssl.CERT_REQUIRED
    try:
        if authority:
            context.load_verify_locations(authority)
        if certificate:
            context.load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise ConfigurationError(f"ssl_ca, ssl_cert or ssl_key cannot be used: {error}") from error
    return context
