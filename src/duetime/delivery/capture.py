"""A capture: what of an answer is kept with its attempt, and what its body is asked.

What is wanted of the body, to be kept or to be looked at, is read once.
"""

from functools import lru_cache
from typing import NamedTuple

from duetime.clock import Millis
from duetime.delivery import following
from duetime.delivery.answers import Response
from duetime.delivery.excerpt import harmless
from duetime.delivery.terms import Check
from duetime.timer import HttpCallback, Spec

LONGEST_READ = following.MOST_BYTES  # bytes of a body that has something to say
LONGEST_VALUE = 1024  # bytes of a header
MOST_OF_HEADERS = 4096  # bytes of all of their values


class Capture(NamedTuple):
    """What one timer wants of its answer."""

    bytes: int = 0
    headers: tuple[str, ...] = ()
    check: Check | None = None
    follows: bool = False

    @property
    def wanted(self) -> int:
        """How many bytes of the body must be in memory for that."""
        return self.bytes if self.check is None and not self.follows else LONGEST_READ

    def text(self, response: Response) -> str | None:
        """How the body began, as it is kept; None: it is not."""
        if not self.bytes or response.excerpt is None:
            return None
        return response.excerpt.text(self.bytes)

    def fields(self, response: Response) -> dict[str, str] | None:
        """The headers that are kept, in the order in which they came; None: none are.

        One that came several times is one with commas, as HTTP has it. What there is no more room
        for is left out.
        """
        if not self.headers:
            return None
        wanted = _in_bytes(self.headers)
        found: dict[str, bytes] = {}
        for field, value in response.headers:
            name = wanted.get(field.lower())
            if name is None:
                continue
            if name not in found:
                found[name] = value
            elif len(found[name]) < LONGEST_VALUE:  # of more, nothing is kept
                found[name] += b", " + value
        kept, room = {}, MOST_OF_HEADERS
        for name, value in found.items():
            if room:
                size = len(value)
                if size > room or size > LONGEST_VALUE:
                    size = min(room, LONGEST_VALUE)
                kept[name] = harmless(value, size, is_line=True)
                room -= size
        return kept

    def problem(self, response: Response) -> str | None:
        """What is wrong with the body of a 2xx answer; None: nothing."""
        if self.check is None:
            return None
        if (flaw := _flaw_of(response)) is not None:
            return f"the answer {flaw}: it is not checked by response_schema"
        return self.check(_body_of(response))

    def wish(self, response: Response, now: Millis) -> following.Wish:
        """What the body of a 2xx answer asks for, if it is asked."""
        if not self.follows:
            return following.DONE
        if _flaw_of(response) is not None:
            return following.CUT_OFF
        return following.read(_body_of(response), now)


NOTHING = Capture()


def capture_of(spec: Spec, callback: HttpCallback, check: Check | None) -> Capture:
    """What a timer wants of its answer, and its group."""
    follows = callback.follow_response
    if check is None and not follows and not spec.response_bytes and not spec.response_headers:
        return NOTHING
    return Capture(spec.response_bytes, spec.response_headers, check, follows)


def _flaw_of(response: Response) -> str | None:
    """Why not all of the body is here, if it is not."""
    flaw, excerpt = response.flaw, response.excerpt
    if flaw is None and excerpt is not None and not excerpt.is_whole:
        return f"is longer than {LONGEST_READ // 1024} KiB"
    return flaw


def _body_of(response: Response) -> bytes:
    return b"" if response.excerpt is None else response.excerpt.content


@lru_cache(maxsize=1024)  # the timers of a group have the same
def _in_bytes(names: tuple[str, ...]) -> dict[bytes, str]:
    return {name.encode(): name for name in names}
