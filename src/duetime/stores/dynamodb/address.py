"""The address of a DynamoDB table: its region and its name, and a few options of our own."""

import re
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from duetime.errors import ConfigurationError
from duetime.stores.dynamodb.signing import Credentials

EXAMPLE = "dynamodb://eu-central-1/duetime"
DEFAULT_POOL_SIZE = 32
POOL_SIZES = range(2, 1001)
UNITS = range(1, 1_000_001)

_REGION = re.compile(r"[a-z0-9-]{2,40}", re.ASCII)
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}", re.ASCII)
_KEY = re.compile(r"[!-~]+", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
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
        """Read a URL, whose options win over those given beside it.

        ConfigurationError names the option that is wrong, and never the secret key.
        """
        parts = _split(url)
        region, table = parts.hostname or "", parts.path.removeprefix("/")
        if not _REGION.fullmatch(region):
            raise ConfigurationError(f"a DynamoDB URL must name a region: {EXAMPLE}")
        if not _TABLE.fullmatch(table):
            raise ConfigurationError(
                "a DynamoDB URL must name a table of 3 to 255 letters, digits, _, - and .: "
                f"{EXAMPLE}"
            )
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := options.keys() - set(_OPTIONS):
            raise ConfigurationError(
                f"{min(unknown)[:60]}: no such option of a DynamoDB URL; "
                f"there are {', '.join(_OPTIONS)}"
            )
        size = options.get("pool_size", str(pool_size or DEFAULT_POOL_SIZE))
        return cls(
            region=region,
            table=table,
            endpoint=_endpoint(options.get("endpoint"), region),
            credentials=_credentials(parts, options.get("profile")),
            profile=options.get("profile"),
            pool_size=_number("pool_size", size, POOL_SIZES),
            units=_units(options),
        )


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        has_port = parts.port is not None
    except ValueError:
        parts, has_port = None, True
    if parts is None or has_port or "#" in url or "@" in parts.path or parts.netloc.count("@") > 1:
        # Not repeated, not even in part: whatever was cut off may be the end of a secret.
        raise ConfigurationError(
            f"a DynamoDB URL looks like {EXAMPLE}?option=value, "
            "or dynamodb://access_key:secret_key@region/table; "
            "in a key, write @ as %40, / as %2F, ? as %3F, # as %23 and % as %25"
        )
    return parts


def _credentials(parts: SplitResult, profile: str | None) -> Credentials | None:
    if not parts.username and not parts.password:
        return None
    if not parts.username or not parts.password:
        raise ConfigurationError(
            "a DynamoDB URL must have both keys or none: access_key:secret_key@"
        )
    if profile is not None:
        raise ConfigurationError("profile: cannot be given together with keys in the URL")
    keys = [unquote(parts.username), unquote(parts.password)]
    if not all(map(_KEY.fullmatch, keys)):
        raise ConfigurationError("the keys in a DynamoDB URL must be of visible ASCII characters")
    return Credentials(*keys)


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


def _number(name: str, text: str, allowed: range) -> int:
    if not (_NUMBER.fullmatch(text) and int(text) in allowed):
        raise ConfigurationError(
            f"{name}: must be from {allowed.start} to {allowed.stop - 1}, not {text[:60]!r}"
        )
    return int(text)


def _units(options: dict[str, str]) -> Units | None:
    given = [name for name in ("read_units", "write_units") if name in options]
    if not given:
        return None
    if len(given) == 1:
        raise ConfigurationError(f"{given[0]}: give both read_units and write_units, or neither")
    read, write = (_number(name, options[name], UNITS) for name in given)
    return Units(read, write)
