"""Follows DynamoDB's protocol on one connection, to know which answer tells of a written timer.

It is HTTP with JSON bodies, one request at a time on a connection.
"""

import re
from urllib.parse import parse_qs, quote, urlsplit

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_WRITING = re.compile(rb"DynamoDB_20120810\.(PutItem|UpdateItem|TransactWriteItems)")
_TIMER = b'r":{"S"'  # what the engine changes of a timer: an attribute or a value called r
_HEAD_END = b"\r\n\r\n"


def port_of(url: str) -> int:
    """The port of the endpoint that a URL names."""
    port = urlsplit(_endpoint(url)).port
    assert port, "only a server can be reached through a proxy"
    return port


def at_port(url: str, port: int) -> str:
    """The same table, reached at another port of this machine."""
    return url.replace(quote(_endpoint(url), safe=""), quote(f"http://127.0.0.1:{port}", safe=""))


def _endpoint(url: str) -> str:
    return parse_qs(urlsplit(url).query)["endpoint"][0]


class TimerWrites:
    """Tells the answers to writes of timers that were written."""

    def __init__(self) -> None:
        self._request = b""
        self._answer = b""

    def asked(self, data: bytes) -> None:
        """Read on in what the client says; a request ends before its answer begins."""
        self._request += data

    def is_awaited(self, answer: bytes) -> bool:
        """Tell whether an answer to a timer that was written ends in this piece."""
        self._answer += answer
        head, end, body = self._answer.partition(_HEAD_END)
        length = _LENGTH.search(head)
        if not end or length is None or len(body) < int(length[1]):
            return False
        request, self._request, self._answer = self._request, b"", b""
        is_written = head.startswith(b"HTTP/1.1 200")
        return is_written and bool(_WRITING.search(request)) and _TIMER in request
