"""A line of the audit: who did what to what, when, and from where."""

from typing import Any

import msgspec

from duetime.clock import Millis


class AuditLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that somebody did. Secrets have no place in it."""

    id: str  # made by ids.new_id when it was done, so that their order is that of time
    tenant: str
    at: Millis
    actor: str  # the name of the key
    key: str | None = None  # the key's id; None: the operator's, which has none
    action: str  # what was done: "timer.cancel"
    kind: str  # of the thing that it was done to: "timer"
    target: str  # which one: its id, or its name
    group: str | None = None  # the only one that it was about, where there is one
    address: str | None = None  # where the request came from
    correlation_id: str | None = None
    details: dict[str, Any] = {}
