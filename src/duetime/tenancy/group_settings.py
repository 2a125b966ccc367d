"""What of a group its users set, and how a request changes that: what it does not name stays."""

from msgspec import UNSET, Raw
from msgspec.structs import replace

from duetime.clock import Millis
from duetime.delivery import Sender
from duetime.delivery.schema import LONGEST_SCHEMA, compiled
from duetime.delivery.schema_size import UnfitSchema
from duetime.drafts import to_on_failure, to_retry_policy
from duetime.durations import format_duration
from duetime.errors import InvalidRequest
from duetime.requests import SHORTEST_RETENTION, to_millis
from duetime.tenancy.group import NO_DEFAULTS, USUAL_ON_RESUME, Defaults, Group
from duetime.tenancy.limit_settings import changed_limits
from duetime.tenancy.requests import PutGroup
from duetime.tenancy.tenants import changed_quotas
from duetime.timer import HttpCallback

# What a receiver says in these is for whoever has signed in there, and for nobody to keep.
_SECRET_HEADERS = frozenset(
    {"authorization", "authentication-info", "cookie", "set-cookie", "www-authenticate"}
)
_SECRET_PREFIXES = ("proxy-", "set-cookie")


def changed(old: Group, body: PutGroup, now: Millis, sender: Sender) -> Group:
    """A group as a request wants it; InvalidRequest if its timers could not be sent like that."""
    changes: dict[str, object] = {"updated_at": now}
    if body.title is not UNSET:
        changes["title"] = body.title
    if body.on_resume is not UNSET:
        changes["on_resume"] = body.on_resume or USUAL_ON_RESUME
    if body.quotas is not UNSET:
        changes["quotas"] = changed_quotas(old.quotas, body.quotas)
    if body.response_schema is not UNSET:
        changes["response_schema"] = _schema(body.response_schema)
    if body.limits is not UNSET:
        changes["limits"] = changed_limits(old.limits, body.limits)
    defaults = _changed_defaults(old.defaults, body)
    if body.on_failure is not UNSET:
        told = None if body.on_failure is None else to_on_failure(body.on_failure, sender)
        defaults = replace(defaults, on_failure=told)
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
    if body.response_headers is not UNSET:
        changes["response_headers"] = _names(body.response_headers or [])
    if body.signatures is not UNSET:
        changes["signatures"] = (
            NO_DEFAULTS.signatures
            if body.signatures is None
            else tuple(dict.fromkeys(body.signatures))
        )
    if body.credential is not UNSET:
        changes["credential"] = body.credential
    return replace(old, **changes)


def _retention(text: str) -> Millis:
    retention = to_millis(text, "retention")
    if retention < SHORTEST_RETENTION:
        shortest = format_duration(SHORTEST_RETENTION)
        raise InvalidRequest(f"retention: must be at least {shortest}")
    return retention


def _names(names: list[str]) -> tuple[str, ...]:
    for name in names:
        lower = name.lower()
        if lower in _SECRET_HEADERS or lower.startswith(_SECRET_PREFIXES):
            raise InvalidRequest(f"response_headers: {name} may carry a secret, and is never kept")
    return tuple(dict.fromkeys(name.lower() for name in names))


def _schema(raw: Raw) -> str | None:
    if len(raw) > LONGEST_SCHEMA:
        raise InvalidRequest(f"response_schema: must be at most {LONGEST_SCHEMA} bytes")
    text = bytes(raw).decode()
    if text == "null":
        return None
    try:
        compiled(text)
    except UnfitSchema as error:
        raise InvalidRequest(f"response_schema: {error}") from None
    return text


def _check(defaults: Defaults, sender: Sender) -> None:
    """Refuse what no callback could have: it is tried on one."""
    callback = HttpCallback(url="https://example.com/", headers=defaults.headers)
    if defaults.timeout is not None:
        callback = replace(callback, timeout=defaults.timeout)
    if (problem := sender.problem(callback)) is not None:
        raise InvalidRequest(problem.removeprefix("callback."))
