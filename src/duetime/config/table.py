"""The one table of settings: what parsing, ``--help`` and docs/configuration.md are made from."""

from collections.abc import Callable
from typing import Any, NamedTuple

from duetime.config import reading
from duetime.requests import LARGEST_BODY

MAKE_A_KEY = 'python3 -c "import secrets; print(secrets.token_urlsafe(32))"'


class Setting(NamedTuple):
    """One line of the table. The field, and the flag if there is one, are named like it."""

    env: str
    reads: Callable[[str], Any]
    default: str  # as one would write it; "" is not set
    help: str
    values: str = ""  # what may be written, for people
    is_secret: bool = False  # its value is never shown
    has_flag: bool = True
    empty: Any = None  # what it is when it is not set

    @property
    def field(self) -> str:
        return self.env.lower()

    @property
    def flag(self) -> str | None:
        return "--" + self.field.replace("_", "-") if self.has_flag else None


# Secrets have no flag: every user of a machine can read the arguments of its processes.
TABLE: tuple[Setting, ...] = (
    Setting(
        "DATABASE_URL",
        reading.url,
        "sqlite:///data/duetime.db",
        "Where timers are stored: sqlite:///relative/path, sqlite:////absolute/path, "
        "postgresql://user:password@host:5432/database, mysql://user:password@host:3306/database, "
        "mongodb://user:password@host1,host2/database?replicaSet=rs, "
        "cassandra://user:password@host1,host2:9042/keyspace, dynamodb://region/table, "
        "or redis://user:password@host:6379/0",
        "a URL",
        is_secret=True,
    ),
    Setting(
        "DATABASE_SCHEMA",
        reading.text,
        "duetime",
        "PostgreSQL: the schema of the tables; several installations share a database by it",
        "a name",
    ),
    Setting(
        "DATABASE_POOL_SIZE",
        reading.count(2, 1000),
        "10",
        "How many connections to a database server a process opens at most, beside a few more",
        "2 to 1000",
    ),
    Setting(
        "NUM_SHARDS",
        reading.count(1, 4096),
        "",
        "Over how many shards timers are spread: chosen when a database is first used, and never "
        "changed; unless set, as many as suit the store",
        "1 to 4096",
    ),
    Setting(
        "API_KEY",
        reading.api_key,
        "",
        "The key that callers send as X-API-Key. `serve` needs one; `dev` makes one. Make one with "
        + MAKE_A_KEY,
        "32 characters or more",
        is_secret=True,
        has_flag=False,
    ),
    Setting(
        "HOST",
        reading.text,
        "0.0.0.0",  # noqa: S104 - what a container needs; API_KEY guards it
        "The address to listen on; 127.0.0.1 in `dev`",
        "a host",
    ),
    Setting("PORT", reading.count(1, 65_535), "8080", "The port to listen on", "1 to 65535"),
    Setting(
        "WORKERS",
        reading.count(1, 64),
        "1",
        "How many processes `serve` runs on the port, each of them a node; `dev` is always one",
        "1 to 64",
    ),
    Setting(
        "LOG_LEVEL",
        reading.one_of("debug", "info", "warning", "error"),
        "info",
        "The least that is logged",
        "debug, info, warning, error",
    ),
    Setting(
        "LOG_FORMAT",
        reading.one_of("text", "json"),
        "text",
        "Log lines for people, or for machines",
        "text, json",
    ),
    Setting(
        "SQLITE_SYNCHRONOUS",
        reading.one_of("full", "normal", "off"),
        "full",
        "When SQLite waits for the disk. Below full, a power cut may lose acknowledged timers",
        "full, normal, off",
    ),
    Setting(
        "MIN_DELAY",
        reading.duration(),
        "0s",
        "How far ahead a timer must at least be when it is made",
        "a duration",
    ),
    Setting(
        "EGRESS_ALLOW",
        reading.words,
        "",
        "Networks and host patterns that callbacks may reach although they are not public; "
        "`dev` adds loopback",
        "comma-separated, e.g. 10.0.0.0/8, *.internal",
        empty=(),
    ),
    Setting(
        "SIGNING_SECRETS",
        reading.signing_secrets,
        "",
        "What callbacks are signed with (Standard Webhooks); several while secrets rotate",
        "comma-separated whsec_...",
        empty=(),
        is_secret=True,
        has_flag=False,
    ),
    Setting(
        "MAX_IN_FLIGHT",
        reading.count(1, 1_000_000),
        "1000",
        "How many callbacks one node makes at once",
        "1 to 1000000",
    ),
    Setting(
        "TARGET_CONCURRENCY",
        reading.count(1, 1_000_000),
        "128",
        "How many callbacks one node makes to one receiver at once",
        "1 to 1000000",
    ),
    Setting(
        "CLAIM_TTL",
        reading.duration(1000),
        "10s",
        "How long a node's claim on a timer holds without a sign of life",
        "a duration, 1s or more",
    ),
    Setting(
        "POLL_INTERVAL",
        reading.duration(10),
        "1s",
        "How often a node looks for timers that other nodes made",
        "a duration, 10ms or more",
    ),
    Setting(
        "RETENTION",
        reading.duration_or_never(1000),
        "30d",
        "How long finished timers are kept",
        "a duration, 1s or more, or never to keep them for ever",
    ),
    Setting(
        "DRAIN_TIMEOUT",
        reading.duration(),
        "25s",
        "How long a stopping node waits for the callbacks under way",
        "a duration",
    ),
    Setting(
        "MAX_BODY_BYTES",
        reading.size(1024, LARGEST_BODY),
        "1MiB",
        "The largest body of a request",
        "up to 8MiB",
    ),
    Setting(
        "MAX_BATCH_BYTES",
        reading.size(1024),
        "32MiB",
        "The largest body of a batch request",
        "bytes, or KiB, MiB, GiB",
    ),
)

# Where DATABASE_URL is not set, these make one.
PG_TABLE: tuple[Setting, ...] = (
    Setting("PG_HOST", reading.text, "", "PostgreSQL's host", "a host", has_flag=False),
    Setting(
        "PG_PORT",
        reading.count(1, 65_535),
        "5432",
        "PostgreSQL's port",
        "1 to 65535",
        has_flag=False,
    ),
    Setting("PG_USER", reading.text, "", "PostgreSQL's user", "text", has_flag=False),
    Setting(
        "PG_PASSWORD",
        reading.text,
        "",
        "PostgreSQL's password",
        "text",
        is_secret=True,
        has_flag=False,
    ),
    Setting("PG_DB_NAME", reading.text, "", "PostgreSQL's database", "text", has_flag=False),
)

# What of these is set becomes an option of that URL, named like it without PG_.
PG_OPTIONS: tuple[Setting, ...] = (
    Setting(
        "PG_SSLMODE",
        reading.one_of("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
        "",
        "Whether to use TLS to PostgreSQL, and what to check",
        "disable, allow, prefer, require, verify-ca, verify-full",
        has_flag=False,
    ),
    Setting(
        "PG_SSLROOTCERT",
        reading.text,
        "",
        "Who may have signed PostgreSQL's certificate",
        "a file",
        has_flag=False,
    ),
    Setting(
        "PG_SSLCERT", reading.text, "", "The certificate to show to it", "a file", has_flag=False
    ),
    Setting("PG_SSLKEY", reading.text, "", "The key of that certificate", "a file", has_flag=False),
)
