"""What of a group its users set, and how a request changes that: what it does not name stays."""

from msgspec import UNSET
from msgspec.structs import replace

from duetime.clock import Millis
from duetime.delivery import Sender
from duetime.drafts import to_retry_policy
from duetime.durations import format_duration
from duetime.errors import InvalidRequest
from duetime.requests import SHORTEST_RETENTION, to_millis
from duetime.tenancy.group import NO_DEFAULTS, USUAL_ON_RESUME, Defaults, Group
from duetime.tenancy.limit_settings import changed_limits
from duetime.tenancy.requests import PutGroup
from duetime.tenancy.tenants import changed_quotas
from duetime.timer import HttpCallback


def changed(old: Group, body: PutGroup, now: Millis, sender: Sender) -> Group:
    """A group as a request wants it; InvalidRequest if its timers could not be sent like that."""
    changes: dict[str, object] = {"updated_at": now}
    if body.title is not UNSET:
        changes["title"] = body.title
    if body.on_resume is not UNSET:
        changes["on_resume"] = body.on_resume or USUAL_ON_RESUME
    if body.quotas is not UNSET:
        changes["quotas"] = changed_quotas(old.quotas, body.quotas)
    if body.limits is not UNSET:
        changes["limits"] = changed_limits(old.limits, body.limits)
    defaults = _changed_defaults(old.defaults, body)
    _check(defaults, sender)
    return replace(old, defaults=defaults, **changes)


def _changed_defaults(old: Defaults, body: PutGroup) -> Defaults:
    changes: dict[str, object] = {}
    if body.retry_policy is not UNSET:
        changes["retry_policy"] = body.retry_policy and to_retry_policy(body.retry_policy)
    if body.timeout is not UNSET:
        changes["timeout"] = None if body.timeout is None else to_millis(body.timeout, "timeout")
    if body.retention is not UNSET:
        changes["retention"] = None if body.retention is None else _retention(body.retention)
    if body.headers is not UNSET:
        changes["headers"] = body.headers or {}
    if body.response_bytes is not UNSET:
        changes["response_bytes"] = body.response_bytes or NO_DEFAULTS.response_bytes
    if body.signatures is not UNSET:
        changes["signatures"] = (
            NO_DEFAULTS.signatures
            if body.signatures is None
            else tuple(dict.fromkeys(body.signatures))
        )
    return replace(old, **changes)


def _retention(text: str) -> Millis:
    retention = to_millis(text, "retention")
    if retention < SHORTEST_RETENTION:
        shortest = format_duration(SHORTEST_RETENTION)
        raise InvalidRequest(f"retention: must be at least {shortest}")
    return retention


def _check(defaults: Defaults, sender: Sender) -> None:
    """Refuse what no callback could have: it is tried on one."""
    callback = HttpCallback(url="https://example.com/", headers=defaults.headers)
    if defaults.timeout is not None:
        callback = replace(callback, timeout=defaults.timeout)
    if (problem := sender.problem(callback)) is not None:
        raise InvalidRequest(problem.removeprefix("callback."))
