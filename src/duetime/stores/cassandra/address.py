"""The address of a Cassandra keyspace: a URL with several hosts, and a few options."""

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from duetime.errors import ConfigurationError

SCHEMES = ("cassandra", "scylla")
EXAMPLE = "cassandra://user:password@host1,host2:9042/keyspace?datacenter=dc1"

DEFAULT_KEYSPACE = "duetime"
DEFAULT_PORT = 9042

_KEYSPACE = re.compile(r"[a-z][a-z0-9_]{0,47}", re.ASCII)
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+)(?::([0-9]{1,5}))?", re.ASCII)
_DATACENTER = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,2}", re.ASCII)
_LAST_PORT = 65535
_OPTIONS = ("consistency", "datacenter", "replication", "tls", "tls_ca")


class Address(NamedTuple):
    """Where the cluster is, and how to work with it."""

    hosts: tuple[tuple[str, int], ...]
    keyspace: str = DEFAULT_KEYSPACE
    user: str | None = None
    password: str | None = None
    datacenter: str | None = None  # the one to work with; None: the only one there is
    is_global: bool = False  # agree across all datacenters, not within one
    replication: int | None = None  # copies of each row, if the keyspace is to be made
    has_tls: bool = False
    tls_ca: str | None = None  # a file with the authorities to trust; None: the system's

    def __repr__(self) -> str:
        """Show all but the password."""
        return f"Address(hosts={self.hosts!r}, keyspace={self.keyspace!r}, user={self.user!r})"

    @classmethod
    def parse(cls, url: str, *, schema: str | None = None) -> "Address":
        """Read a URL, whose keyspace wins over the schema given beside it.

        ConfigurationError names the option that is wrong, and never the password.
        """
        parts = _split(url)
        who, _, hosts = parts.netloc.rpartition("@")
        user, colon, password = who.partition(":")
        keyspace = parts.path.strip("/") or schema or DEFAULT_KEYSPACE
        if not _KEYSPACE.fullmatch(keyspace):
            raise ConfigurationError(
                "DATABASE_URL: a keyspace must be up to 48 lower-case letters, digits and "
                f"underscores, and begin with a letter, not {keyspace[:60]!r}"
            )
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := options.keys() - set(_OPTIONS):
            raise ConfigurationError(
                f"{min(unknown)}: no such option of a Cassandra URL; there are "
                f"{', '.join(_OPTIONS)}"
            )
        consistency = _one_of(options, "consistency", ("local", "global"))
        return cls(
            hosts=_hosts(hosts),
            keyspace=keyspace,
            user=unquote(user) or None,
            password=unquote(password) if colon else None,
            datacenter=_datacenter(options),
            is_global=consistency == "global",
            replication=_replication(options),
            has_tls=_one_of(options, "tls", ("off", "on")) == "on",
            tls_ca=_file(options, "tls_ca"),
        )


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigurationError(f"a Cassandra URL looks like {EXAMPLE}") from None
    if "#" in url or "@" in parts.path or "@" in parts.query or parts.netloc.count("@") > 1:
        # Not repeated, not even in part: whatever was cut off may be the end of a password.
        raise ConfigurationError(
            f"a Cassandra URL looks like {EXAMPLE}; in a user or password, write @ as %40, "
            "/ as %2F, ? as %3F, # as %23 and % as %25"
        )
    return parts


def _hosts(text: str) -> tuple[tuple[str, int], ...]:
    """Hosts with ports; one without has that of the last."""
    found = [_HOST.fullmatch(each) for each in text.split(",")]
    ports = [int(each[2]) for each in found if each and each[2]]
    if not all(found) or not all(0 < port <= _LAST_PORT for port in ports):
        raise ConfigurationError(
            f"a Cassandra URL looks like {EXAMPLE}, with a number up to 65535 as the port"
        )
    default = ports[-1] if ports else DEFAULT_PORT
    return tuple((each[1].strip("[]"), int(each[2] or default)) for each in found if each)


def _one_of(options: dict[str, str], name: str, choices: tuple[str, str]) -> str:
    chosen = options.get(name, choices[0])
    if chosen not in choices:
        raise ConfigurationError(f"{name}: must be {' or '.join(choices)}, not {chosen[:60]!r}")
    return chosen


def _datacenter(options: dict[str, str]) -> str | None:
    name = options.get("datacenter")
    if name is not None and not _DATACENTER.fullmatch(name):
        raise ConfigurationError(f"datacenter: must be the name of one, not {name[:60]!r}")
    return name


def _replication(options: dict[str, str]) -> int | None:
    text = options.get("replication")
    if text is None:
        return None
    if not _NUMBER.fullmatch(text) or int(text) == 0:
        raise ConfigurationError(f"replication: must be from 1 to 99, not {text[:60]!r}")
    return int(text)


def _file(options: dict[str, str], name: str) -> str | None:
    path = options.get(name)
    if path is not None and not Path(path).is_file():
        raise ConfigurationError(f"{name}: there is no file {path[:200]!r}")
    return path
