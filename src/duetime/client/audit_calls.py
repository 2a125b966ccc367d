"""The calls about the audit, as values."""

from duetime.client.audit_types import AuditExportFilters, AuditFilters, AuditPage
from duetime.client.calls import Call
from duetime.client.lines import LINES_TYPE


def audit_page(filters: AuditFilters) -> Call[AuditPage]:
    query = {name: value for name, value in filters.items() if value is not None}
    return Call("GET", "/audit", query=query, needs="lines", needs_type=list)


def next_audit_page(filters: AuditFilters, before: AuditPage) -> AuditFilters | None:
    """What to ask for the page behind this one, or None if it is the last."""
    cursor = before.get("next_cursor")
    return AuditFilters(**{**filters, "cursor": cursor}) if cursor else None


def export_audit(filters: AuditExportFilters) -> Call[bytes]:
    query = {name: value for name, value in filters.items() if value is not None}
    return Call("GET", "/audit/export", query=query, headers={"Accept": LINES_TYPE})
