"""The address of a MongoDB database: a URL as its drivers take it, and an option of our own."""

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from duetime.errors import ConfigurationError

SCHEMES = ("mongodb", "mongodb+srv")
EXAMPLE = "mongodb://user:password@host:27017/database?replicaSet=rs"

DEFAULT_DATABASE = "duetime"
DEFAULT_POOL_SIZE = 10
POOL_SIZES = range(2, 1001)

_DATABASE = re.compile(r'[^/\\. "$*<>:|?\x00]{1,63}')
_NUMBER = re.compile(r"[0-9]{1,5}", re.ASCII)
_LAST_PORT = 65535
_OPTION = re.compile(r"[A-Za-z_]{1,60}", re.ASCII)

# What the driver makes of the rest. Its names do not tell upper from lower case.
_PASSED_ON = (
    "appName",
    "authMechanism",
    "authMechanismProperties",
    "authSource",
    "compressors",
    "directConnection",
    "replicaSet",
    "srvMaxHosts",
    "srvServiceName",
    "ssl",
    "tls",
    "tlsAllowInvalidCertificates",
    "tlsAllowInvalidHostnames",
    "tlsCAFile",
    "tlsCertificateKeyFile",
    "tlsCertificateKeyFilePassword",
    "tlsCRLFile",
    "tlsDisableOCSPEndpointCheck",
    "tlsInsecure",
    "zlibCompressionLevel",
)
_NAMES = {name.lower(): name for name in _PASSED_ON}
# What our promises rest on: a URL may say so too, as those that hosting services hand out do.
_GIVEN = {"retrywrites": "true", "retryreads": "true", "w": "majority", "journal": "true"}
_FILES = ("tlsCAFile", "tlsCertificateKeyFile", "tlsCRLFile")


class Address(NamedTuple):
    """Where the database is, and how to work with it."""

    uri: str  # for the driver; it may hold a password
    database: str = DEFAULT_DATABASE  # several installations share a server by this
    pool_size: int = DEFAULT_POOL_SIZE

    @classmethod
    def parse(cls, url: str, *, pool_size: int | None = None) -> "Address":
        """Read a URL, whose options win over those given beside it.

        ConfigurationError names the option that is wrong, and never the password.
        """
        parts = _split(url)
        database = unquote(parts.path.removeprefix("/")) or DEFAULT_DATABASE
        if not _DATABASE.fullmatch(database):
            raise ConfigurationError(
                "the database of a MongoDB URL must be up to 63 characters, and none of "
                f'/ \\ . " $ * < > : | ? or a space, not {database[:60]!r}'
            )
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        size = options.pop("pool_size", str(pool_size or DEFAULT_POOL_SIZE))
        if not (_NUMBER.fullmatch(size) and int(size) in POOL_SIZES):
            raise ConfigurationError(f"pool_size: must be from 2 to 1000, not {size[:60]!r}")
        passed_on = _passed_on(options)
        passed_on.setdefault("appName", "duetime")
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in passed_on.items())
        path = parts.path if len(parts.path) > 1 else "/"
        return cls(f"{parts.scheme}://{parts.netloc}{path}?{query}", database, int(size))


def _split(url: str) -> SplitResult:
    """Take the URL apart, and refuse one that the driver would take apart elsewhere."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigurationError(f"a MongoDB URL looks like {EXAMPLE}") from None
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    is_cut_short = "#" in url or "@" in parts.path or not all(map(_OPTION.fullmatch, names))
    *users, hosts = parts.netloc.split("@")
    is_strange = len(users) > 1 or any(":" in user.partition(":")[2] for user in users)
    if is_cut_short or is_strange or not hosts or not all(map(_is_host, hosts.split(","))):
        # Not repeated, not even in part: whatever was cut off may be the end of a password.
        raise ConfigurationError(
            f"a MongoDB URL looks like {EXAMPLE}, with a number as the port; "
            "in a user or password, write @ as %40, : as %3A, / as %2F, ? as %3F, # as %23 "
            "and % as %25"
        )
    if parts.scheme == "mongodb+srv" and ("," in hosts or ":" in hosts):
        raise ConfigurationError("a mongodb+srv:// URL names one host, without a port")
    return parts


def _is_host(host: str) -> bool:
    """Tell whether this is a host, with a port or without."""
    name, colon, port = host.rpartition("]")[2].partition(":")
    if not name and not host.startswith("["):
        return False
    return not colon or (bool(_NUMBER.fullmatch(port)) and 0 < int(port) <= _LAST_PORT)


def _passed_on(options: dict[str, str]) -> dict[str, str]:
    """What the driver is told; refuses what it would not understand, and what we rely on."""
    passed_on: dict[str, str] = {}
    for option, value in options.items():
        if (given := _GIVEN.get(option.lower())) is not None:
            if value != given:
                raise ConfigurationError(
                    f"{option}: must be {given}, or left out: what was acknowledged would "
                    "not be safe otherwise"
                )
        elif name := _NAMES.get(option.lower()):
            passed_on[name] = value
        else:
            known = ", ".join(["pool_size", *_PASSED_ON])
            raise ConfigurationError(
                f"{option}: no such option of a MongoDB URL; there are {known}"
            )
    for name in _FILES:
        if name in passed_on and not Path(passed_on[name]).is_file():
            raise ConfigurationError(f"{name}: there is no file {passed_on[name][:200]!r}")
    return passed_on
