"""Replies: an answer of the API as a message of NATS, with its status among the headers."""

import re

from duetime.api.envelope import Reply
from duetime.nats.headers import written
from duetime.nats.service import error_headers

LEAST_FAILURE = 400

# Not "Status": clients take a 503 under that name for the server's word that nobody listens.
STATUS = "Duetime-Status"

_NAMES = {b"etag": "ETag", b"retry-after": "Retry-After"}
_NOT_IN_A_HEADER = re.compile(r"[^\x20-\x7e]+")


def headers_of(reply: Reply) -> bytes:
    """The block of headers that goes with an answer."""
    headers = {STATUS: str(reply.status)}
    for name, value in reply.headers:
        headers[_NAMES.get(name) or name.decode().title()] = value.decode()
    if reply.status >= LEAST_FAILURE:
        headers |= error_headers(reply.status, one_line(reply.message))
    return written(headers)


def one_line(text: str) -> str:
    """A text as a header can carry it: what it cannot is left out, for it may be a user's."""
    return _NOT_IN_A_HEADER.sub("?", text)
