"""Ends: when something that is made shall end by itself, as its maker has said."""

from duetime.clock import Millis
from duetime.errors import InvalidRequest
from duetime.requests import to_millis, to_time


def asked_end(expires_at: str | None, expires_in: str | None, now: Millis) -> Millis | None:
    """The end that was asked for, by a time or by a duration; None: none was."""
    if expires_at is not None and expires_in is not None:
        raise InvalidRequest("expires_in: cannot be given together with expires_at")
    if expires_in is not None:
        length = to_millis(expires_in, "expires_in")
        if length == 0:
            raise InvalidRequest("expires_in: must be more than 0s")
        return now + length
    if expires_at is None:
        return None
    at = to_time(expires_at, "expires_at")
    if at <= now:
        raise InvalidRequest("expires_at: must be in the future")
    return at
