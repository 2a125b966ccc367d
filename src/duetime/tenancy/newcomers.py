"""Newcomers: what is being made just now, and takes a place though nobody finds it yet.

How many of a thing a tenant has is what the rules know, and these hear of one when it was written.
Whoever comes before that must count it too, or all who come at once take the last place. Nobody
waits for another here: the first timers of many groups would be let in one after the other.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class Newcomers:
    """What is being made of one kind, on this node."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}  # by tenant; of those only who has any

    @contextmanager
    def coming(self, tenant: str, name: str) -> Iterator[frozenset[str]]:
        """Count one until it is there, or is not to be; gives the others of its tenant."""
        names = self._names.setdefault(tenant, [])
        others = frozenset(names) - {name}
        names.append(name)
        try:
            yield others
        finally:
            names.remove(name)
            if not names:
                del self._names[tenant]
