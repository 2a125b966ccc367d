"""The audit, as typed dictionaries: the service's own JSON."""

from typing import Any, Literal, Required, TypedDict


class AuditExportFilters(TypedDict, total=False):
    """Which lines of the audit, and in which order."""

    actor: str
    key: str
    action: str
    kind: str
    target: str
    group: str
    after: str
    before: str
    order: Literal["asc", "desc"]


class AuditFilters(AuditExportFilters, total=False):
    """Which lines of the audit, page by page."""

    limit: int
    cursor: str


class AuditLine(TypedDict, total=False):
    """A line of the audit: who did what, when, and from where."""

    id: Required[str]
    at: str
    actor: str
    key: str | None
    action: str
    kind: str
    target: str
    group: str | None
    address: str | None
    correlation_id: str | None
    details: dict[str, Any] | None


class AuditPage(TypedDict, total=False):
    """One page of the audit."""

    lines: Required[list[AuditLine]]
    next_cursor: str | None
