"""The one table of settings: what parsing, ``--help`` and docs/configuration.md are made from."""

from typing import Any, NamedTuple

from duetime.config import reading
from duetime.config.reading import Reader
from duetime.requests import LARGEST_BODY, SHORTEST_RETENTION
from duetime.stores.opening import supported

MAKE_A_KEY = 'python3 -c "import secrets; print(secrets.token_urlsafe(32))"'


class Setting(NamedTuple):
    """One line of the table. The field, and the flag if there is one, are named like it."""

    env: str
    reads: Reader
    default: str  # as one would write it; "" is not set
    help: str
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
        f"Where timers are stored: {supported()}",
        is_secret=True,
    ),
    Setting(
        "DATABASE_SCHEMA",
        reading.text("a name"),
        "duetime",
        "PostgreSQL's schema, or Cassandra's keyspace, unless the URL names one; several "
        "installations share a database by it",
    ),
    Setting(
        "DATABASE_POOL_SIZE",
        reading.count(2, 1000),
        "10",
        "How many connections to a database server a process opens at most, beside a few more",
    ),
    Setting(
        "NUM_SHARDS",
        reading.count(1, 4096),
        "",
        "Over how many shards timers are spread: chosen when a database is first used, and never "
        "changed; unless set, as many as suit the store",
    ),
    Setting(
        "API_KEY",
        reading.api_key,
        "",
        "The operator's key, which opens everything; callers send it as X-API-Key, or as a bearer "
        "token. `serve` needs one; `dev` makes one. Make one with " + MAKE_A_KEY,
        is_secret=True,
        has_flag=False,
    ),
    Setting(
        "HOST",
        reading.text("a host"),
        "0.0.0.0",  # noqa: S104 - what a container needs; API_KEY guards it
        "The address to listen on; 127.0.0.1 in `dev`",
    ),
    Setting("PORT", reading.count(1, 65_535), "8080", "The port to listen on"),
    Setting(
        "TRUSTED_PROXIES",
        reading.networks,
        "",
        "Proxies and load balancers whose X-Forwarded-For is believed: the audit then says where a "
        "request came from, and not which proxy brought it",
        empty=(),
    ),
    Setting(
        "WORKERS",
        reading.count(1, 64),
        "1",
        "How many processes `serve` runs on the port, each of them a node; `dev` is always one",
    ),
    Setting(
        "LOG_LEVEL",
        reading.one_of("debug", "info", "warning", "error"),
        "info",
        "The least that is logged",
    ),
    Setting(
        "LOG_FORMAT",
        reading.one_of("text", "json"),
        "text",
        "Log lines for people, or for machines",
    ),
    Setting(
        "SQLITE_SYNCHRONOUS",
        reading.one_of("full", "normal", "off"),
        "full",
        "When SQLite waits for the disk. Below full, a power cut may lose acknowledged timers",
    ),
    Setting(
        "MIN_DELAY",
        reading.duration(),
        "0s",
        "How far ahead a timer must at least be when it is made",
    ),
    Setting(
        "EGRESS_ALLOW",
        reading.words("10.0.0.0/8, *.internal"),
        "",
        "Networks and host patterns that callbacks may reach although they are not public; "
        "`dev` adds loopback",
        empty=(),
    ),
    Setting(
        "EGRESS_PUBLIC",
        reading.words("all, none, or *.partner.example:443, 198.51.100.0/24"),
        "all",
        "Which public networks and hosts callbacks may reach; a host only at public addresses",
        empty=("all",),
    ),
    Setting(
        "EGRESS_DENY",
        reading.words("*.ads.example, 203.0.113.0/24"),
        "",
        "Networks and host patterns that callbacks may never reach, whatever the others say",
        empty=(),
    ),
    Setting(
        "EGRESS_PROXY",
        reading.proxy,
        "",
        "The HTTP proxy that all callbacks go through, by CONNECT",
        is_secret=True,
        has_flag=False,
    ),
    Setting(
        "EGRESS_PROXY_DNS",
        reading.one_of("here", "proxy"),
        "here",
        "Who resolves the names of receivers where there is a proxy, and thereby judges where they "
        "lead: this node, or the proxy",
    ),
    Setting(
        "SIGNING_SECRETS",
        reading.signing_secrets,
        "",
        "What callbacks are signed with (Standard Webhooks); several, the newest first, while "
        "secrets rotate",
        empty=(),
        is_secret=True,
        has_flag=False,
    ),
    Setting(
        "SECRETS_KEY",
        reading.secrets_keys,
        "",
        "What seals the secrets of users that are kept in the database; several, the newest first, "
        "while keys rotate. `dev` makes one. Make one with openssl rand -base64 32",
        empty=(),
        is_secret=True,
        has_flag=False,
    ),
    Setting(
        "NATS_URL",
        reading.nats_servers,
        "",
        "The NATS servers, of which one is used: nats:// or tls:// each, with a user and a "
        "password, or a token, before an @. Without it, or NATS_HOST, there are no NATS callbacks",
        empty=(),
        is_secret=True,
        has_flag=False,
    ),
    Setting(
        "NATS_TOKEN",
        reading.text("a token"),
        "",
        "The token to show to NATS, if the URL has none",
        is_secret=True,
        has_flag=False,
    ),
    Setting(
        "NATS_CREDS",
        reading.text("a file"),
        "",
        "The credentials file (.creds) to show to NATS: a user's JWT and the seed of its nkey",
    ),
    Setting(
        "NATS_NKEY_SEED",
        reading.text("a file"),
        "",
        "The file with the seed of the nkey to show to NATS",
    ),
    Setting("NATS_TLS_CA", reading.text("a file"), "", "Who may have signed NATS's certificate"),
    Setting("NATS_TLS_CERT", reading.text("a file"), "", "The certificate to show to NATS"),
    Setting("NATS_TLS_KEY", reading.text("a file"), "", "The key of that certificate"),
    Setting(
        "NATS_PREFIX",
        reading.nats_prefix,
        "duetime",
        "What the subjects of events and commands begin with; several installations share NATS "
        "by it",
    ),
    Setting(
        "OUTBOX",
        reading.one_of("off", "on"),
        "off",
        "Whether every change of a timer writes an event, in the same transaction: for GET "
        "/events, and for the stream of events where there is NATS; `dev` has it on",
    ),
    Setting(
        "OUTBOX_RETENTION",
        reading.duration(60_000),
        "1h",
        "How long events are kept in the database where there is no NATS to publish them to",
    ),
    Setting(
        "EVENTS_STREAM",
        reading.nats_name,
        "DUETIME_EVENTS",
        "The JetStream stream that events are published to; it is created if it is not there",
    ),
    Setting(
        "EVENTS_STREAM_MAX_AGE",
        reading.duration_or_never(60_000),
        "7d",
        "How long that stream keeps events, if it is created",
    ),
    Setting(
        "EVENTS_STREAM_REPLICAS",
        reading.count(1, 5),
        "1",
        "How many servers of a NATS cluster keep that stream, if it is created",
    ),
    Setting(
        "NATS_COMMANDS",
        reading.one_of("off", "keys", "subjects"),
        "off",
        "Whether timers can be created, read, changed and canceled over NATS; who may: whoever "
        "sends an API key along, or whoever NATS lets publish on the subjects of a tenant",
    ),
    Setting(
        "NATS_TENANTS",
        reading.nats_tenants,
        "",
        "Which subjects are whose: what commands of a tenant begin with; unless set, NATS_PREFIX "
        "and then the tenant",
        empty=(),
    ),
    Setting(
        "COMMANDS_STREAM",
        reading.nats_name,
        "",
        "The JetStream stream that creates are taken from, durably; it is created if it is not "
        "there. Unless set, none are",
    ),
    Setting(
        "MAX_IN_FLIGHT",
        reading.count(1, 1_000_000),
        "1000",
        "How many callbacks one node makes at once",
    ),
    Setting(
        "TARGET_CONCURRENCY",
        reading.count(1, 1_000_000),
        "128",
        "How many callbacks of one tenant a node makes to one receiver at once",
    ),
    Setting(
        "BREAKER_FAILURES",
        reading.count(0, 1_000_000),
        "10",
        "After how many failures in a row a node sends nothing to a receiver for a while; 0: never",
    ),
    Setting(
        "BREAKER_LONGEST_PAUSE",
        reading.duration(1000),
        "5m",
        "For how long at most, before one callback tries whether such a receiver is well again",
    ),
    Setting(
        "CLAIM_TTL",
        reading.duration(1000),
        "10s",
        "How long a node's claim on a timer holds without a sign of life",
    ),
    Setting(
        "POLL_INTERVAL",
        reading.duration(10),
        "1s",
        "How often a node looks for timers that other nodes made",
    ),
    Setting(
        "RETENTION",
        reading.duration_or_never(SHORTEST_RETENTION),
        "30d",
        "How long finished timers are kept",
    ),
    Setting(
        "UNKNOWN_GROUPS",
        reading.one_of("create", "refuse"),
        "create",
        "What becomes of a timer for a group that does not exist: the group is created, or the "
        "timer refused",
    ),
    Setting(
        "AUDIT",
        reading.one_of("all", "changes", "off"),
        "all",
        "What the audit writes down: everything, all but the creation of timers, or nothing",
    ),
    Setting(
        "AUDIT_RETENTION",
        reading.duration_or_never(1000),
        "90d",
        "How long the lines of the audit are kept",
    ),
    Setting(
        "DRAIN_TIMEOUT",
        reading.duration(),
        "25s",
        "How long a stopping node waits for the callbacks under way",
    ),
    Setting(
        "MAX_BODY_BYTES",
        reading.size(1024, LARGEST_BODY),
        "1MiB",
        "The largest body of a request",
    ),
    Setting(
        "MAX_BATCH_BYTES",
        reading.size(1024),
        "32MiB",
        "The largest body of a batch request",
    ),
)

# Where DATABASE_URL is not set, these make one.
PG_TABLE: tuple[Setting, ...] = (
    Setting("PG_HOST", reading.text("a host"), "", "PostgreSQL's host", has_flag=False),
    Setting(
        "PG_PORT",
        reading.count(1, 65_535),
        "5432",
        "PostgreSQL's port",
        has_flag=False,
    ),
    Setting("PG_USER", reading.text(), "", "PostgreSQL's user", has_flag=False),
    Setting(
        "PG_PASSWORD",
        reading.text(),
        "",
        "PostgreSQL's password",
        is_secret=True,
        has_flag=False,
    ),
    Setting("PG_DB_NAME", reading.text(), "", "PostgreSQL's database", has_flag=False),
)

# What of these is set becomes an option of that URL, named like it without PG_.
PG_OPTIONS: tuple[Setting, ...] = (
    Setting(
        "PG_SSLMODE",
        reading.one_of("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
        "",
        "Whether to use TLS to PostgreSQL, and what to check",
        has_flag=False,
    ),
    Setting(
        "PG_SSLROOTCERT",
        reading.text("a file"),
        "",
        "Who may have signed PostgreSQL's certificate",
        has_flag=False,
    ),
    Setting(
        "PG_SSLCERT", reading.text("a file"), "", "The certificate to show to it", has_flag=False
    ),
    Setting("PG_SSLKEY", reading.text("a file"), "", "The key of that certificate", has_flag=False),
)

# Where NATS_URL is not set, these make one.
NATS_TABLE: tuple[Setting, ...] = (
    Setting("NATS_HOST", reading.text("a host"), "", "NATS's host", has_flag=False),
    Setting("NATS_PORT", reading.count(1, 65_535), "4222", "NATS's port", has_flag=False),
    Setting("NATS_USER", reading.text(), "", "NATS's user, if it wants one", has_flag=False),
    Setting(
        "NATS_PASSWORD",
        reading.text(),
        "",
        "The password of that user",
        is_secret=True,
        has_flag=False,
    ),
)

EVERY = (*TABLE, *PG_TABLE, *PG_OPTIONS, *NATS_TABLE)
