"""The address of a DynamoDB table: its region and its name, and a few options of our own."""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from duetime.errors import ConfigurationError
from duetime.stores.dynamodb.signing import Credentials
from duetime.stores.url import POOL_SIZES, DatabaseUrl, UrlOptions

EXAMPLE = "dynamodb://eu-central-1/duetime"
_WITH_KEYS = "dynamodb://access_key:secret_key@region/table"
DEFAULT_POOL_SIZE = 32
UNITS = range(1, 1_000_001)

_REGION = re.compile(r"[a-z0-9-]{2,40}", re.ASCII)
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}", re.ASCII)
_KEY = re.compile(r"[!-~]+", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", re.ASCII)
_OPTIONS = ("endpoint", "pool_size", "profile", "read_units", "write_units")


class Units(NamedTuple):
    """What is provisioned, in read and write units a second."""

    read: int
    write: int


class Address(NamedTuple):
    """Where the table is, and how to work with it."""

    region: str
    table: str
    endpoint: str
    credentials: Credentials | None = None  # None: where AWS's tools look for them
    profile: str | None = None
    pool_size: int = DEFAULT_POOL_SIZE
    units: Units | None = None  # None: paid by request

    @classmethod
    def parse(cls, url: str, *, pool_size: int | None = None) -> "Address":
        """Read a URL, whose options win over those given beside it."""
        found = DatabaseUrl(
            url, engine="DynamoDB", example=f"{EXAMPLE} or {_WITH_KEYS}", at_in_options=True
        )
        [(host, port), *more] = found.hosts
        region = host.lower()
        if more or port is not None:
            raise found.broken()
        if not _REGION.fullmatch(region):
            raise ConfigurationError(f"a DynamoDB URL must name a region: {EXAMPLE}")
        if not _TABLE.fullmatch(found.path):
            raise ConfigurationError(
                "a DynamoDB URL must name a table of 3 to 255 letters, digits, _, - and .: "
                f"{EXAMPLE}"
            )
        options = found.options(_OPTIONS)
        return cls(
            region=region,
            table=found.path,
            endpoint=_endpoint(options.text("endpoint"), region),
            credentials=_credentials(found, options.text("profile")),
            profile=options.text("profile"),
            pool_size=options.number("pool_size", pool_size or DEFAULT_POOL_SIZE, POOL_SIZES),
            units=_units(options),
        )


def _credentials(url: DatabaseUrl, profile: str | None) -> Credentials | None:
    if not url.user and not url.password:
        return None
    if not url.user or not url.password:
        raise ConfigurationError(
            "a DynamoDB URL must have both keys or none: access_key:secret_key@"
        )
    if profile is not None:
        raise ConfigurationError("profile: cannot be given together with keys in the URL")
    if not _KEY.fullmatch(url.user) or not _KEY.fullmatch(url.password):
        raise ConfigurationError("the keys in a DynamoDB URL must be of visible ASCII characters")
    return Credentials(url.user, url.password)


def _endpoint(endpoint: str | None, region: str) -> str:
    if endpoint is None:
        suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        return f"https://dynamodb.{region}.{suffix}"
    try:
        parts = urlsplit(endpoint)
        host = parts.netloc.removesuffix(f":{parts.port}")
        is_fine = parts.scheme in {"http", "https"} and bool(_HOST.fullmatch(host))
    except ValueError:
        is_fine = False
    if not is_fine or parts.path.strip("/") or parts.query or parts.username:
        raise ConfigurationError("endpoint: must be http://host:port or https://host:port")
    return f"{parts.scheme}://{parts.netloc}"


def _units(options: UrlOptions) -> Units | None:
    given = [name for name in ("read_units", "write_units") if name in options]
    if not given:
        return None
    if len(given) == 1:
        raise ConfigurationError(f"{given[0]}: give both read_units and write_units, or neither")
    read, write = (options.number(name, 1, UNITS) for name in given)
    return Units(read, write)
