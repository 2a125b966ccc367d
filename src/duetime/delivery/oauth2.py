"""OAuth2: tokens that are fetched with client credentials, and kept until shortly before their end.

Many callbacks that need the same token wait for one fetch. One that fails is believed for a moment,
so that a token endpoint which is down is not asked by each of them.
"""

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias

import msgspec

from duetime.clock import Clock, Millis
from duetime.delivery.answers import Response
from duetime.delivery.grant import Grant
from duetime.durations import format_duration
from duetime.timer import Outcome

_log = logging.getLogger(__name__)

FETCH_FOR = 10.0  # seconds that a fetch takes at most
AHEAD = 30.0  # seconds before its end that a token is used no more
LONGEST = 86_400.0  # seconds that a token is kept, whatever its answer says
USUAL = 60.0  # seconds, where the answer does not say how long
YOUNG = 1.0  # seconds: a token that is refused so soon is not fetched anew, nor after a failure
MOST_BYTES = 32 * 1024  # of an answer
MOST_KEPT = 1024

_TOKEN = re.compile(r"[!-~]{1,16384}")  # what a header can carry
_PHRASES = {int(each): each.phrase for each in HTTPStatus}
_CODES = frozenset(
    {
        "invalid_client",
        "invalid_grant",
        "invalid_request",
        "invalid_scope",
        "unauthorized_client",
        "unsupported_grant_type",
    }
)

# Python's own floats: msgspec's take a hundred times as long where their exponents are large.
_decode = msgspec.json.Decoder(float_hook=float).decode

# Asks a URL within so many seconds: the answer, or what there was instead of one.
Ask: TypeAlias = Callable[[str, Mapping[str, str], bytes, float], Awaitable["Response | Outcome"]]


class Token:
    """A token; times are on the monotonic clock."""

    __slots__ = ("ends_at", "fetched_at", "until", "value")

    def __init__(self, value: str, fetched_at: float, lasts: float) -> None:
        self.value = value
        self.fetched_at = fetched_at
        self.ends_at = fetched_at + lasts
        self.until = self.ends_at - min(AHEAD, lasts / 2)  # a new one is fetched from then on


class NoToken(NamedTuple):
    """Why there is none, in words that follow a colon."""

    error: str
    retry_after: str | None = None  # as the token endpoint has it


class _Known:
    """What is known of one grant's token."""

    __slots__ = ("failed_at", "failure", "fetched", "token")

    def __init__(self) -> None:
        self.token: Token | None = None
        self.failure: NoToken | None = None
        self.failed_at = -math.inf
        self.fetched: asyncio.Event | None = None  # a fetch is under way until it is set


class Tokens:
    """Tokens by their grants."""

    def __init__(self, clock: Clock, ask: Ask) -> None:
        self._clock = clock
        self._ask = ask
        self._known: dict[str, _Known] = {}
        self._fetches: set[asyncio.Task[None]] = set()

    async def get(
        self, grant: Grant, seconds: float, refused: Token | None = None
    ) -> Token | NoToken:
        """The token, fetched if need be within so many seconds.

        ``refused``: a receiver does not take that one any more. It is the answer all the same if
        it was fetched just now: another one would fare no better.
        """
        known = self._of(grant)
        now = self._clock.monotonic()
        token = known.token
        if token is not None:
            is_good_until = token.fetched_at + YOUNG if token is refused else token.until
            if now < is_good_until:
                return token
        if known.fetched is None:
            if known.failure is not None and now < known.failed_at + YOUNG:
                return self._instead(known, refused)
            known.fetched = asyncio.Event()
            # Not the caller's own: it may be cancelled, and others wait for the same token.
            fetch = asyncio.create_task(self._fetch(grant, known, known.fetched))
            self._fetches.add(fetch)
            fetch.add_done_callback(self._fetches.discard)
        if not await self._clock.wait(known.fetched, seconds):
            waited: Millis = max(0, round(1000 * seconds))
            return NoToken(f"no answer within {format_duration(waited)}")
        return self._instead(known, refused)

    def close(self) -> None:
        """Give up what is being fetched."""
        for fetch in self._fetches:
            fetch.cancel()

    def _of(self, grant: Grant) -> _Known:
        known = self._known.get(grant.id)
        if known is None:
            known = self._known[grant.id] = _Known()
            if len(self._known) > MOST_KEPT:
                del self._known[next(iter(self._known))]
        return known

    def _instead(self, known: _Known, refused: Token | None) -> Token | NoToken:
        """What there is after a fetch: the old token is good for its last seconds still."""
        token, failure = known.token, known.failure
        if failure is None:
            return token or NoToken("none was fetched")
        if token is None or token is refused or self._clock.monotonic() >= token.ends_at:
            return failure
        return token

    async def _fetch(self, grant: Grant, known: _Known, fetched: asyncio.Event) -> None:
        found: Token | NoToken = NoToken("the fetch was given up")
        try:
            headers, body = grant.request()
            answer = await self._ask(grant.token_url, headers, body, FETCH_FOR)
            found = read(answer, self._clock.monotonic())
        except Exception as error:  # noqa: BLE001 - whatever happens, those who wait hear of it
            # Its own words may quote what nobody may read.
            _log.error("the fetch of a token failed in an unforeseen way: %s", type(error).__name__)
            found = NoToken("it could not be asked")
        finally:
            if isinstance(found, Token):
                known.token, known.failure = found, None
            else:
                known.failure, known.failed_at = found, self._clock.monotonic()
            known.fetched = None
            fetched.set()


def read(answer: Response | Outcome, now: float) -> Token | NoToken:
    """The token in an answer, or why there is none; nothing of the answer is quoted."""
    if isinstance(answer, Outcome):
        return NoToken(answer.error or "it could not be asked")
    content = _content(answer)
    if not 200 <= answer.status < 300:  # noqa: PLR2004 - the class of success
        return NoToken(_status(answer.status, content), answer.header(b"retry-after"))
    if content is None:
        return NoToken("the answer is not JSON, or too long")
    value, kind = content.get("access_token"), content.get("token_type", "bearer")
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        return NoToken("the answer has no access_token that could be sent")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        return NoToken("the answer has a token_type that is not bearer")
    return Token(value, now, _seconds(content.get("expires_in")))


def _content(answer: Response) -> dict[str, Any] | None:
    try:
        content = _decode(answer.excerpt.content if answer.excerpt else b"")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _status(status: int, content: dict[str, Any] | None) -> str:
    phrase = _PHRASES.get(status, "")
    code = (content or {}).get("error")
    said = f" ({code})" if isinstance(code, str) and code in _CODES else ""
    return f"HTTP {status} {phrase}".rstrip() + said


def _seconds(lasts: Any) -> float:
    """How long a token lasts, as far as its answer makes sense."""
    if isinstance(lasts, str):  # some write numbers so
        lasts = int(lasts) if lasts.isascii() and lasts.isdecimal() and len(lasts) < 10 else None  # noqa: PLR2004
    if isinstance(lasts, bool) or not isinstance(lasts, int | float) or not lasts > 0:
        return USUAL
    return float(min(lasts, LONGEST))
