"""Look-ups under way, in threads of their own: so many at once, and of one domain only some.

Name servers that hang keep a thread for many seconds. Whoever has made up a thousand names under
such a domain must not keep the threads from the names of others: these wait in a line of their own.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

Lookup: TypeAlias = Callable[[str], list[str]]
OnEnd: TypeAlias = Callable[[str, asyncio.Future[list[str]]], None]

# getaddrinfo may block for many seconds per dead name; with threads of its own it delays only DNS.
_THREADS = 64
MOST_OF_A_DOMAIN = 16


class Lookups:
    """Begins look-ups, each when there is room for it; ``on_end`` hears of each that ended."""

    def __init__(self, lookup: Lookup, on_end: OnEnd) -> None:
        self._lookup = lookup
        self._on_end = on_end
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="duetime-dns")
        self._under_way: dict[str, int] = {}  # by domain
        self._lines: dict[str, dict[str, None]] = {}  # by domain, who waits, in order

    def begin(self, host: str) -> None:
        """Look a host up, now or when it is its turn."""
        domain = _domain(host)
        if self._under_way.get(domain, 0) < MOST_OF_A_DOMAIN:
            self._begin(domain, host)
        else:
            self._lines.setdefault(domain, {})[host] = None

    def take_back(self, host: str) -> bool:
        """Do not look up what nobody waits for any more, if that has not begun; tell whether."""
        domain = _domain(host)
        line = self._lines.get(domain, {})
        if host not in line:
            return False
        del line[host]
        if not line:
            del self._lines[domain]
        return True

    def close(self) -> None:
        """Give up what has not begun."""
        lines, self._lines = self._lines, {}
        for host in [host for line in lines.values() for host in line]:
            self._give_up(host)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _begin(self, domain: str, host: str) -> None:
        # Not a task of the caller's: it may be cancelled, and others wait for the same answer.
        looking = asyncio.get_running_loop().run_in_executor(self._threads, self._lookup, host)
        self._under_way[domain] = self._under_way.get(domain, 0) + 1
        looking.add_done_callback(lambda done: self._end(domain, host, done))

    def _end(self, domain: str, host: str, done: asyncio.Future[list[str]]) -> None:
        self._under_way[domain] -= 1
        if not self._under_way[domain]:
            del self._under_way[domain]
        if line := self._lines.get(domain):
            following = next(iter(line))
            self.take_back(following)
            try:
                self._begin(domain, following)
            except RuntimeError:  # there is no thread to be had
                self._give_up(following)
        self._on_end(host, done)

    def _give_up(self, host: str) -> None:
        given_up: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        given_up.cancel()
        self._on_end(host, given_up)


def _domain(host: str) -> str:
    """What is likely to have name servers of its own: the last two labels."""
    return ".".join(host.removesuffix(".").rsplit(".", 2)[-2:])
