"""A pool keeps the databases that no test uses just now, by their server.

Where it takes long to make one and little to empty it, a test leaves its own, empty, to the next
test of the same process.
"""


class Pool:
    """The URLs of empty databases."""

    def __init__(self) -> None:
        self._free: dict[str, list[str]] = {}

    def lend(self, server: str) -> str | None:
        """One on this server, if there is any."""
        free = self._free.get(server)
        return free.pop() if free else None

    def take_back(self, server: str, url: str) -> None:
        """Keep one, which has been emptied."""
        self._free.setdefault(server, []).append(url)
