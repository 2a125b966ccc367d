"""The envelope: every answer of the API is ``{"code", "message", "data"}``, errors included."""

import logging
from typing import Any

import msgspec

from duetime.errors import (
    Conflict,
    DuetimeError,
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    PreconditionFailed,
    StoreError,
    Unauthorized,
    Unavailable,
    UnsupportedQuery,
)

log = logging.getLogger("duetime.api")

OK = 0
UNEXPECTED = 1
INVALID = 2

# The first that matches is the answer: (error, HTTP status, code).
_ANSWERS: tuple[tuple[type[DuetimeError], int, int], ...] = (
    (UnsupportedQuery, 400, INVALID),
    (InvalidRequest, 400, INVALID),
    (NotFound, 404, 3),
    (Unauthorized, 401, 4),
    (Conflict, 409, 5),
    (PreconditionFailed, 412, 6),
    (PayloadTooLarge, 413, 8),
    (Unavailable, 503, 9),
    (StoreError, 500, UNEXPECTED),
)


class Envelope(msgspec.Struct):
    """What every answer looks like."""

    code: int
    message: str
    data: Any = None


class Reply(msgspec.Struct):
    """An answer, before it is put into bytes."""

    status: int
    message: str
    data: Any = None
    code: int = OK
    headers: tuple[tuple[bytes, bytes], ...] = ()


_encoder = msgspec.json.Encoder()


def encode(reply: Reply) -> bytes:
    """The body of an answer."""
    return _encoder.encode(Envelope(reply.code, reply.message, reply.data))


def failure(error: Exception) -> Reply:
    """The answer to a request that failed."""
    for type_, status, code in _ANSWERS:
        if isinstance(error, type_):
            headers = ((b"retry-after", b"1"),) if status == 503 else ()  # noqa: PLR2004
            return Reply(status, str(error), code=code, headers=headers)
    log.error("a request failed unexpectedly", exc_info=error)
    return Reply(500, "unexpected error; the server's log tells more", code=UNEXPECTED)
