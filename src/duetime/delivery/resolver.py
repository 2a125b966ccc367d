"""The resolver turns a host into addresses, off the event loop, and remembers them for a while.

Delivery resolves names itself because the egress guard must judge the very address that is then
connected to. A name that is looked up by many callbacks at once is looked up once. While the name
servers are slow or away, an answer of a little earlier is better than none (as RFC 8767 has it).
"""

import asyncio
import socket

from duetime.clock import Clock
from duetime.delivery.lookups import Lookup, Lookups

_PASSING = frozenset({socket.EAI_AGAIN, socket.EAI_MEMORY, getattr(socket, "EAI_SYSTEM", None)})

_KEEP_FOR = 30.0  # seconds to remember an answer: a name that moves is followed within these
_USE_STALE_FOR = 600.0  # seconds beyond that, while there is no new one
_SHORTEST_FAILURE = 2.0  # seconds to remember a failure: a name may have just been made
_PATIENCE = 1.0  # seconds to wait for a new answer where there is an old one
_LONGEST_FAILURE = 30.0  # seconds to remember one


def system_lookup(host: str) -> list[str]:
    """Ask the machine's own resolver, in the order that it prefers."""
    # As bytes, so that Python does not apply its own, older IDNA to what the URL parser decided.
    found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


class Answer:
    """What a look-up found: addresses, or why there are none. Times are on the monotonic clock."""

    __slots__ = ("addresses", "error", "found_at", "until")

    def __init__(
        self, addresses: tuple[str, ...], error: str | None, found_at: float, until: float
    ) -> None:
        self.addresses = addresses
        self.error = error
        self.found_at = found_at
        self.until = until  # nobody needs to ask before


class _Awaited:
    """A look-up that is not over, and how many wait for it."""

    __slots__ = ("is_over", "since", "waiting")

    def __init__(self, since: float) -> None:
        self.is_over = asyncio.Event()
        self.since = since  # on the monotonic clock
        self.waiting = 0


class Resolver:
    """Resolves hosts, with a bounded memory."""

    def __init__(
        self,
        clock: Clock,
        lookup: Lookup = system_lookup,
        *,
        size: int = 4096,
    ) -> None:
        self._clock = clock
        self._lookups = Lookups(lookup, self._keep)
        self._size = size
        self._answers: dict[str, Answer] = {}
        self._pending: dict[str, _Awaited] = {}

    def remembered(self, host: str) -> Answer | None:
        """The answer, if it is known and not too old."""
        answer = self._answers.get(host)
        if answer is not None and self._clock.monotonic() < answer.until:
            return answer
        return None

    async def resolve(self, host: str, seconds: float) -> Answer | None:
        """The answer, looked up if need be; None if that takes longer than ``seconds``."""
        if answer := self.remembered(host):
            return answer
        awaited = self._pending.get(host)
        if awaited is None:
            self._lookups.begin(host)
            awaited = self._pending[host] = _Awaited(self._clock.monotonic())
        stale = self._stale(host)
        awaited.waiting += 1
        try:
            within = min(seconds, _PATIENCE) if stale else seconds
            if await self._clock.wait(awaited.is_over, within):
                return self._answers.get(host)
        finally:
            awaited.waiting -= 1
            if not (awaited.waiting or awaited.is_over.is_set()) and self._lookups.take_back(host):
                del self._pending[host]
        return stale

    def close(self) -> None:
        """Give up what is being looked up."""
        self._lookups.close()

    def _stale(self, host: str) -> Answer | None:
        """An answer that is too old, but not by much."""
        answer = self._answers.get(host)
        if answer is None or answer.error is not None:
            return None
        age = self._clock.monotonic() - answer.found_at
        return answer if age < _KEEP_FOR + _USE_STALE_FOR else None

    def _keep(self, host: str, done: asyncio.Future[list[str]]) -> None:
        now = self._clock.monotonic()
        awaited = self._pending.pop(host)
        # A failure that took long to find out is believed for as long, so that names that are dead
        # do not keep the threads from those that are not.
        believed = min(max(now - awaited.since, _SHORTEST_FAILURE), _LONGEST_FAILURE)
        stale = self._stale(host)
        if stale is not None and _is_passing(done):
            stale.until = now + believed
            awaited.is_over.set()
            return
        addresses: tuple[str, ...] = ()
        error: str | None = None
        if done.cancelled():
            error = "the look-up was given up"
        elif exception := done.exception():
            error = getattr(exception, "strerror", None) or str(exception)
        elif not (addresses := tuple(done.result())):
            error = "it has no address"
        self._answers.pop(host, None)
        until = now + (_KEEP_FOR if error is None else believed)
        self._answers[host] = Answer(addresses, error, now, until)
        if len(self._answers) > self._size:
            del self._answers[next(iter(self._answers))]  # the one that was looked up longest ago
        awaited.is_over.set()


def _is_passing(done: asyncio.Future[list[str]]) -> bool:
    """Tell whether a look-up failed for a reason that says nothing about the name."""
    if done.cancelled():
        return True
    error = done.exception()
    return isinstance(error, socket.gaierror) and error.errno in _PASSING
