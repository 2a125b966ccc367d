"""Answers that tell of one timer: each names its version, for ``If-Match``."""

from duetime.api.envelope import Reply
from duetime.api.views import CanceledView, detail_view, view, without_payloads
from duetime.tenancy.caller import Caller
from duetime.tenancy.role import Role
from duetime.timer import Timer


def shown(timer: Timer, message: str, status: int = 200) -> Reply:
    """A timer in short."""
    return Reply(status, message, view(timer), headers=_etag(timer))


def detailed(timer: Timer, caller: Caller, waiting_for: str | None = None) -> Reply:
    """A timer with all that is known of it, as far as the caller may see it."""
    data = detail_view(timer, waiting_for)
    if not caller.may(Role.READ):
        data = without_payloads(data)
    return Reply(200, "success", data, headers=_etag(timer))


def canceled(timer: Timer) -> Reply:
    """The answer to a cancel."""
    data = CanceledView(timer.id, timer.status)
    return Reply(200, "timer canceled successfully", data, headers=_etag(timer))


def _etag(timer: Timer) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"etag", b'"%d"' % timer.version),)
