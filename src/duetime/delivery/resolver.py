"""The resolver turns a host into addresses, off the event loop, and remembers them for a while.

Delivery resolves names itself because the egress guard must judge the very address that is then
connected to. A name that is looked up by many callbacks at once is looked up once.
"""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from duetime.clock import Clock

Lookup: TypeAlias = Callable[[str], list[str]]

# getaddrinfo may block for many seconds per dead name; with threads of its own it delays only DNS.
_THREADS = 16


def system_lookup(host: str) -> list[str]:
    """Ask the machine's own resolver, in the order that it prefers."""
    # As bytes, so that Python does not apply its own, older IDNA to what the URL parser decided.
    found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


class Answer:
    """What a look-up found: addresses, or why there are none."""

    __slots__ = ("addresses", "error", "until")

    def __init__(self, addresses: tuple[str, ...], error: str | None, until: float) -> None:
        self.addresses = addresses
        self.error = error
        self.until = until  # on the monotonic clock


class Resolver:
    """Resolves hosts, with a bounded memory."""

    def __init__(
        self,
        clock: Clock,
        lookup: Lookup = system_lookup,
        *,
        keep_for: float = 30.0,
        keep_failure_for: float = 2.0,
        size: int = 4096,
    ) -> None:
        self._clock = clock
        self._lookup = lookup
        self._keep_for = keep_for
        self._keep_failure_for = keep_failure_for
        self._size = size
        self._answers: dict[str, Answer] = {}
        self._pending: dict[str, asyncio.Event] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="duetime-dns")

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
        answered = self._pending.get(host)
        if answered is None:
            answered = self._pending[host] = asyncio.Event()
            # Not a task of the caller's: it may be cancelled, and others wait for the same answer.
            looking = asyncio.get_running_loop().run_in_executor(self._threads, self._lookup, host)
            looking.add_done_callback(lambda done: self._keep(host, done))
        if not await self._clock.wait(answered, seconds):
            return None
        return self._answers.get(host)

    def close(self) -> None:
        """Give up what is being looked up."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _keep(self, host: str, done: asyncio.Future[list[str]]) -> None:
        addresses: tuple[str, ...] = ()
        error: str | None = None
        if done.cancelled():
            error = "the look-up was given up"
        elif exception := done.exception():
            error = getattr(exception, "strerror", None) or str(exception)
        elif not (addresses := tuple(done.result())):
            error = "it has no address"
        keep_for = self._keep_for if error is None else self._keep_failure_for
        self._answers.pop(host, None)
        self._answers[host] = Answer(addresses, error, self._clock.monotonic() + keep_for)
        if len(self._answers) > self._size:
            del self._answers[next(iter(self._answers))]  # the one that was looked up longest ago
        self._pending.pop(host).set()
