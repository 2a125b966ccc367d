"""The status of a target: what its document says, and what the nodes tell of it, in one."""

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from duetime.clock import Millis
from duetime.nodes import TargetReport
from duetime.tenancy.target import Target

# Paused by hand; shut because it keeps failing; being tried after that.
TargetState: TypeAlias = Literal["ok", "paused", "failing", "probing"]


class Told(NamedTuple):
    """What one node tells of all its targets, and how long ago that was."""

    reports: dict[str, TargetReport]
    age: Millis


class TargetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a target is."""

    name: str
    document: Target | None = None
    state: TargetState = "ok"
    since: Millis | None = None  # it is paused, or failing
    until: Millis | None = None  # the pause ends, or the next probe; None: when it is resumed, now
    failures: int = 0
    last_error: str | None = None
    waiting: int = 0
    under_way: int = 0


def status_of(
    name: str,
    document: Target | None,
    reports: Iterable[tuple[TargetReport, Millis]],
    now: Millis,
) -> TargetStatus:
    """Put together what is known of a target, with what nodes told, and how long ago."""
    reports = list(reports)
    resumed_at = 0 if document is None else document.resumed_at or 0
    failing = [
        (report, age)
        for report, age in reports
        # What was told before somebody resumed it is not so any more.
        if report.failing_for is not None and now - age >= resumed_at
    ]
    worst = max((report for report, _ in failing), key=lambda each: each.failures, default=None)
    status = TargetStatus(
        name=name,
        document=document,
        failures=0 if worst is None else worst.failures,
        last_error=None if worst is None else worst.error,
        waiting=sum(report.waiting for report, _ in reports),
        under_way=sum(report.under_way for report, _ in reports),
    )
    if document is not None and document.is_paused(now):
        return msgspec.structs.replace(
            status, state="paused", since=document.paused_at, until=document.paused_until
        )
    if not failing:
        return status
    since = min(now - age - (report.failing_for or 0) for report, age in failing)
    probes = [now - age + report.probe_in for report, age in failing]
    # It is tried as soon as one node does so.
    if min(probes) <= now:
        return msgspec.structs.replace(status, state="probing", since=since)
    return msgspec.structs.replace(status, state="failing", since=since, until=min(probes))
