"""The address of a Cassandra keyspace: a URL with several hosts, and a few options."""

import re
from typing import NamedTuple

from duetime.errors import ConfigurationError
from duetime.stores.url import DatabaseUrl, UrlOptions

EXAMPLE = "cassandra://user:password@host1,host2:9042/keyspace?datacenter=dc1"

DEFAULT_KEYSPACE = "duetime"
DEFAULT_PORT = 9042
COPIES = range(1, 100)

_KEYSPACE = re.compile(r"[a-z][a-z0-9_]{0,47}", re.ASCII)
_HOST = re.compile(r"[0-9a-fA-F:.]+|[A-Za-z0-9_.-]+", re.ASCII)
_DATACENTER = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)
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
        """Read a URL, whose keyspace wins over the schema given beside it."""
        found = DatabaseUrl(url, engine="Cassandra", example=EXAMPLE)
        keyspace = found.path.strip("/") or schema or DEFAULT_KEYSPACE
        if not _KEYSPACE.fullmatch(keyspace):
            raise ConfigurationError(
                "DATABASE_URL: a keyspace must be up to 48 lower-case letters, digits and "
                f"underscores, and begin with a letter, not {keyspace[:60]!r}"
            )
        options = found.options(_OPTIONS)
        return cls(
            hosts=_hosts(found),
            keyspace=keyspace,
            user=found.user,
            password=found.password,
            datacenter=_datacenter(options),
            is_global=options.choice("consistency", ("local", "global"), "local") == "global",
            replication=options.number("replication", 1, COPIES)
            if "replication" in options
            else None,
            has_tls=options.choice("tls", ("off", "on"), "off") == "on",
            tls_ca=options.file("tls_ca"),
        )


def _hosts(url: DatabaseUrl) -> tuple[tuple[str, int], ...]:
    """Hosts with ports; one without has that of the last."""
    if not all(_HOST.fullmatch(host.name) for host in url.hosts):
        raise url.broken()
    ports = [host.port for host in url.hosts if host.port is not None]
    default = ports[-1] if ports else DEFAULT_PORT
    return tuple((host.name, host.port or default) for host in url.hosts)


def _datacenter(options: UrlOptions) -> str | None:
    name = options.text("datacenter")
    if name is not None and not _DATACENTER.fullmatch(name):
        raise ConfigurationError(f"datacenter: must be the name of one, not {name[:60]!r}")
    return name
