"""The envelope: every answer of the API is ``{"code", "message", "data"}``, errors included."""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Callable
from enum import IntEnum
from typing import Any

import msgspec

from duetime.errors import (
    Conflict,
    DuetimeError,
    Forbidden,
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    PreconditionFailed,
    StoreError,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnsupportedQuery,
)
from duetime.tenancy import api_key, signing_secret
from duetime.tenancy.caller import Caller

log = logging.getLogger("duetime.api")


class Code(IntEnum):
    """What kind of answer it is."""

    OK = 0
    UNEXPECTED = 1
    INVALID = 2
    NOT_FOUND = 3
    UNAUTHORIZED = 4
    CONFLICT = 5
    PRECONDITION_FAILED = 6
    TOO_MANY = 7
    TOO_LARGE = 8
    UNAVAILABLE = 9
    FORBIDDEN = 10


# Goes with every 503: nothing was written, and a second later there may be room.
RETRY_AFTER = ((b"retry-after", b"1"),)

# The first that matches is the answer: (error, HTTP status, code).
_ANSWERS: tuple[tuple[type[DuetimeError], int, Code], ...] = (
    (UnsupportedQuery, 400, Code.INVALID),
    (InvalidRequest, 400, Code.INVALID),
    (NotFound, 404, Code.NOT_FOUND),
    (Unauthorized, 401, Code.UNAUTHORIZED),
    (Forbidden, 403, Code.FORBIDDEN),
    (TooManyRequests, 429, Code.TOO_MANY),
    (Conflict, 409, Code.CONFLICT),
    (PreconditionFailed, 412, Code.PRECONDITION_FAILED),
    (PayloadTooLarge, 413, Code.TOO_LARGE),
    (Unavailable, 503, Code.UNAVAILABLE),
    (StoreError, 500, Code.UNEXPECTED),
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
    code: int = Code.OK
    headers: tuple[tuple[bytes, bytes], ...] = ()
    stream: AsyncGenerator[bytes] | None = None  # instead of an envelope, of this type
    content_type: bytes = b"application/json"
    # What a stream says last when it fails half way; without that, it is cut off.
    last_word: "Callable[[Reply], bytes] | None" = None
    longest_pause: float | None = None  # seconds that its reader may take for one part ...
    hurry: asyncio.Event | None = None  # ... until this is set: then it has a moment only


_encoder = msgspec.json.Encoder()


def encode(reply: Reply) -> bytes:
    """The body of an answer."""
    return _encoder.encode(Envelope(reply.code, reply.message, reply.data))


def failure(error: Exception, caller: Caller) -> Reply:
    """The answer to a request that failed."""
    for type_, status, code in _ANSWERS:
        if isinstance(error, type_):
            text = str(error)
            if isinstance(error, StoreError) and not caller.is_operator:
                text = error.told
            # It may quote what was sent, and some send their key or secret in the wrong place.
            message = signing_secret.hidden(api_key.hidden(text))
            return Reply(status, message, code=code, headers=_retry_after(error, code))
    log.error("a request failed unexpectedly", exc_info=error)
    return Reply(500, "unexpected error; the server's log tells more", code=Code.UNEXPECTED)


def _retry_after(error: Exception, code: Code) -> tuple[tuple[bytes, bytes], ...]:
    if isinstance(error, TooManyRequests):
        return ((b"retry-after", str(max(math.ceil(error.retry_after), 1)).encode()),)
    return RETRY_AFTER if code is Code.UNAVAILABLE else ()
