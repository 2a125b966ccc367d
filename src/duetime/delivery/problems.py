"""Problems: why an HTTP callback could never be delivered, in words that name the field.

This runs on every create, so the usual case costs a few microseconds and nothing is looked up.
"""

import re
from functools import lru_cache

from msgspec import UNSET
from pyreqwest.http import Url

from duetime.delivery import headers
from duetime.delivery.receiver import Receiver
from duetime.timer import HttpCallback

LONGEST_URL = 2048
SHORTEST_TIMEOUT = 1
LONGEST_TIMEOUT = 600_000

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_KNOWN_METHODS = frozenset(_METHODS)
_BODILESS_METHODS = frozenset({"GET", "HEAD"})

# The parser also reads "http:x" and "http:///x" as having the host x; nobody means that.
_ABSOLUTE = re.compile(r"https?://[^/\\?#]", re.IGNORECASE)
_USERINFO = re.compile(r"https?://[^/\\?#]*@", re.IGNORECASE)
_BAD_URL = "callback.url: must be an http or https URL"


def problem_of(callback: HttpCallback) -> str | None:
    """The first problem found, or None."""
    return (
        _problem_of_url(callback.url)
        or _problem_of_method(callback)
        or _problem_of_headers(callback)
        or _problem_of_timeout(callback)
        or _problem_of_following(callback)
    )


def _problem_of_url(text: str) -> str | None:
    if len(text) > LONGEST_URL:
        return f"callback.url: must be at most {LONGEST_URL} characters"
    return _problem_of_short_url(text)


@lru_cache(maxsize=1024)  # most timers go to the same few
def _problem_of_short_url(text: str) -> str | None:
    if not _ABSOLUTE.match(text) or not text.isprintable():
        return _BAD_URL
    try:
        Receiver(Url(text))
    except ValueError:
        return _BAD_URL
    if "@" in text and _USERINFO.match(text):
        return (
            "callback.url: must not contain a user name or password;"
            " send them in callback.headers, as Authorization"
        )
    return None


def _problem_of_method(callback: HttpCallback) -> str | None:
    if callback.method not in _KNOWN_METHODS:
        return f"callback.method: must be one of {', '.join(_METHODS)}"
    if callback.method in _BODILESS_METHODS and callback.payload is not UNSET:
        return (
            f"callback.payload: a {callback.method} request has no body;"
            " use POST, or put the data into callback.url"
        )
    return None


def _problem_of_headers(callback: HttpCallback) -> str | None:
    if not callback.headers:
        return None
    problem = headers.problem_with(callback.headers)
    return problem and f"callback.headers: {problem}"


def _problem_of_timeout(callback: HttpCallback) -> str | None:
    if SHORTEST_TIMEOUT <= callback.timeout <= LONGEST_TIMEOUT:
        return None
    return "callback.timeout: must be between 1ms and 10m"


def _problem_of_following(callback: HttpCallback) -> str | None:
    if callback.follow_response and callback.method == "HEAD":
        return "callback.follow_response: the answer to a HEAD request has no body; use another"
    return None
