"""The address of a MongoDB database: a URL as its drivers take it, and an option of our own."""

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from duetime.errors import ConfigurationError
from duetime.stores.url import POOL_SIZES, DatabaseUrl, UrlOptions

EXAMPLE = "mongodb://user:password@host:27017/database?replicaSet=rs"

DEFAULT_DATABASE = "duetime"
DEFAULT_POOL_SIZE = 10

_DATABASE = re.compile(r'[^/\\. "$*<>:|?\x00]{1,63}')

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
# What our promises rest on: a URL may say so too, as those that hosting services hand out do.
_GIVEN = {"retryWrites": "true", "retryReads": "true", "w": "majority", "journal": "true"}
_FILES = ("tlsCAFile", "tlsCertificateKeyFile", "tlsCRLFile")
_NAMES = {name.lower(): name for name in (*_PASSED_ON, *_GIVEN)}


class Address(NamedTuple):
    """Where the database is, and how to work with it."""

    uri: str  # for the driver; it may hold a password
    database: str = DEFAULT_DATABASE  # several installations share a server by this
    pool_size: int = DEFAULT_POOL_SIZE

    @classmethod
    def parse(cls, url: str, *, pool_size: int | None = None) -> "Address":
        """Read a URL, whose options win over those given beside it."""
        found = DatabaseUrl(url, engine="MongoDB", example=EXAMPLE, at_in_options=True)
        _check_hosts(found)
        database = unquote(found.path) or DEFAULT_DATABASE
        if not _DATABASE.fullmatch(database):
            raise ConfigurationError(
                "the database of a MongoDB URL must be up to 63 characters, and none of "
                f'/ \\ . " $ * < > : | ? or a space, not {database[:60]!r}'
            )
        given = {_NAMES.get(name.lower(), name): value for name, value in found.given.items()}
        options = UrlOptions(given, ("pool_size", *_PASSED_ON, *_GIVEN), "MongoDB")
        _check_safety(options)
        for name in _FILES:
            options.file(name)
        size = options.number("pool_size", pool_size or DEFAULT_POOL_SIZE, POOL_SIZES)
        passed_on = options.besides(("pool_size", *_GIVEN))
        passed_on.setdefault("appName", "duetime")
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in passed_on.items())
        return cls(f"{found.scheme}://{found.netloc}/{found.path}?{query}", database, size)


def _check_hosts(url: DatabaseUrl) -> None:
    """Refuse what the driver would take apart elsewhere."""
    who = url.netloc.rpartition("@")[0]
    if who.count(":") > 1 or not all(host.name for host in url.hosts):
        raise url.broken()
    if url.scheme == "mongodb+srv" and (len(url.hosts) > 1 or url.hosts[0].port):
        raise ConfigurationError("a mongodb+srv:// URL names one host, without a port")


def _check_safety(options: UrlOptions) -> None:
    for name, given in _GIVEN.items():
        if name in options and options.text(name) != given:
            raise ConfigurationError(
                f"{name}: must be {given}, or left out: what was acknowledged would "
                "not be safe otherwise"
            )
