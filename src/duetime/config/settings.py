"""The settings of a node, as all of it knows them."""

import re
from typing import Literal

import msgspec

from duetime.clock import Millis


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a node runs. Durations are in milliseconds."""

    database_url: str
    database_schema: str
    database_pool_size: int
    num_shards: int | None  # None: as many as suit the store
    api_key: str | None
    host: str
    port: int
    trusted_proxies: tuple[str, ...]
    workers: int
    log_level: Literal["debug", "info", "warning", "error"]
    log_format: Literal["text", "json"]
    sqlite_synchronous: Literal["full", "normal", "off"]
    min_delay: Millis
    egress_allow: tuple[str, ...]
    egress_public: tuple[str, ...]
    egress_deny: tuple[str, ...]
    egress_proxy: str | None
    egress_proxy_dns: Literal["here", "proxy"]
    signing_secrets: tuple[str, ...]
    secrets_key: tuple[str, ...]
    nats_url: tuple[str, ...]  # none: there is no NATS
    nats_token: str | None
    nats_creds: str | None
    nats_nkey_seed: str | None
    nats_tls_ca: str | None
    nats_tls_cert: str | None
    nats_tls_key: str | None
    nats_prefix: str
    outbox: Literal["off", "on"]
    outbox_retention: Millis
    events_stream: str
    events_stream_max_age: Millis | None  # None: it keeps them for ever
    events_stream_replicas: int
    nats_commands: Literal["off", "keys", "subjects"]
    nats_tenants: tuple[tuple[str, str], ...]  # what subjects begin with, and whose they are
    commands_stream: str | None
    max_in_flight: int
    target_concurrency: int
    breaker_failures: int  # 0: never
    breaker_longest_pause: Millis
    claim_ttl: Millis
    poll_interval: Millis
    retention: Millis | None  # None: finished timers are kept for ever
    unknown_groups: Literal["create", "refuse"]
    audit: Literal["all", "changes", "off"]
    audit_retention: Millis | None  # None: its lines are kept for ever
    drain_timeout: Millis
    max_body_bytes: int
    max_batch_bytes: int

    def __repr__(self) -> str:
        """Show every setting that is no secret."""
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        shown["api_key"] = self.api_key and "***"
        shown["signing_secrets"] = ("***",) * len(self.signing_secrets)
        shown["egress_proxy"] = self.egress_proxy and "***"
        shown["secrets_key"] = ("***",) * len(self.secrets_key)
        shown["nats_url"] = tuple(map(without_user, self.nats_url))
        shown["nats_token"] = self.nats_token and "***"
        shown["database_url"] = without_password(self.database_url)
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def without_user(server: str) -> str:
    """The address of a NATS server, fit to be shown: before its @ may be a token."""
    return re.sub(r"(?<=://).*@", "", server)


def without_password(database_url: str) -> str:
    """The same address, fit to be shown."""
    shown = re.sub(r"(?<=://)([^:/?#]*):.*@", r"\1:***@", database_url)
    return re.sub(r"(?i)((?:password|secret\w*|token\w*)=)[^&]*", r"\1***", shown)
