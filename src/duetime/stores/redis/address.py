"""Where the timers are: a server of Redis, one of its databases, and a prefix in it."""

import re
from typing import NamedTuple

from duetime.errors import ConfigurationError
from duetime.stores.url import POOL_SIZES, DatabaseUrl

EXAMPLE = "redis://user:password@host:6379/0"
PORT = 6379
POOL_SIZE = 10

_DATABASES = re.compile(r"[0-9]{0,6}", re.ASCII)
_PREFIX = re.compile(r"[A-Za-z0-9_.-]{1,60}", re.ASCII)
_OPTIONS = ("prefix", "pool_size", "durability", "ssl_ca", "ssl_cert", "ssl_key")
_OF_TLS = ("ssl_ca", "ssl_cert", "ssl_key")


class Address(NamedTuple):
    """How to reach the timers; the password is in it, so it is never shown."""

    host: str
    port: int = PORT
    database: int = 0
    user: str | None = None
    password: str | None = None
    prefix: str = "duetime"  # what the names of all keys begin with
    pool_size: int = POOL_SIZE
    is_checked: bool = True  # whether the server must say that it keeps what it acknowledges
    has_tls: bool = False
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None

    @classmethod
    def parse(cls, url: str, *, pool_size: int | None = None) -> "Address":
        """Read a URL. ConfigurationError names what is wrong with it, and never the password."""
        parts = DatabaseUrl(url, engine="Redis", example=EXAMPLE)
        if len(parts.hosts) != 1 or not parts.hosts[0].name or not _DATABASES.fullmatch(parts.path):
            raise parts.broken()
        [host] = parts.hosts
        options = parts.options(_OPTIONS)
        has_tls = parts.scheme == "rediss"
        for name in _OF_TLS:
            if name in options and not has_tls:
                raise ConfigurationError(f"{name}: only a rediss:// URL speaks TLS")
        prefix = options.text("prefix") or "duetime"
        if not _PREFIX.fullmatch(prefix):
            raise ConfigurationError(
                "prefix: must be 1 to 60 letters, digits, dots, hyphens and underscores"
            )
        durability = options.choice("durability", ("checked", "unchecked"), "checked")
        return cls(
            host=host.name,
            port=host.port or PORT,
            database=int(parts.path or 0),
            user=parts.user,
            password=parts.password,
            prefix=prefix,
            pool_size=options.number("pool_size", pool_size or POOL_SIZE, POOL_SIZES),
            is_checked=durability == "checked",
            has_tls=has_tls,
            ssl_ca=options.file("ssl_ca"),
            ssl_cert=options.file("ssl_cert"),
            ssl_key=options.file("ssl_key"),
        )

    @property
    def place(self) -> str:
        """What to call it in messages."""
        return f"database {self.database} of {self.host}:{self.port} under the prefix {self.prefix}"
