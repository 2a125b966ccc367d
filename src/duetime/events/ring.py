"""A ring has the last events of a tenant, as many as fit, for all of its readers.

Each reader knows the number of the event that comes next for it. So a hundred of them need no more
memory than one, and who falls behind by a whole ring is found out by its number.
"""

import asyncio
from collections import deque
from itertools import islice

from duetime.events.feed import Told, family_of

_OVERHEAD = 500  # bytes of an event, beside its body


class Ring:
    """The last events of a tenant, numbered."""

    def __init__(self, position: str, *, most: int, most_bytes: int) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self.first = 0  # the number of the oldest event that is there
        self.readers = 0
        self.left_at = 0.0  # when there was none any more
        self.news = asyncio.Event()  # another one after each news
        self._events: deque[Told] = deque()
        self._weight = 0
        self._start = position  # of what is no longer here, or never was
        self._starts_late = False

    @property
    def end(self) -> int:
        """The number that the next event will have."""
        return self.first + len(self._events)

    def put(self, told: Told) -> None:
        """Keep an event, and let go of those for which there is no room then."""
        self._events.append(told)
        self._weight += weight_of(told)
        while self._fullness > 1 and len(self._events) > 1:
            gone = self._events.popleft()
            self._weight -= weight_of(gone)
            self._start, self._starts_late = gone.position, gone.is_late
            self.first += 1

    def is_pressing(self, number: int) -> bool:
        """Tell whether half of the ring is still to be heard by who is at a number.

        Of one that is left behind already, no.
        """
        behind = self.end - number
        return number >= self.first and behind * self._fullness > len(self._events) / 2

    @property
    def _fullness(self) -> float:
        return max(len(self._events) / self.most, self._weight / self.most_bytes)

    def tell(self) -> None:
        """Wake whoever waits for news."""
        self.news.set()
        self.news = asyncio.Event()

    def since(self, number: int, most: int, most_bytes: int) -> list[Told]:
        """The events from a number on, that must not be less than the first: one, or some."""
        start, weight = number - self.first, 0
        events: list[Told] = []
        for told in islice(self._events, start, start + most):
            weight += weight_of(told)
            if events and weight > most_bytes:
                break
            events.append(told)
        return events

    def number_behind(self, position: str) -> int | None:
        """The number of what comes next for who has heard all up to a position, if it is here.

        An event that came late has the position that was reached when it came. So among those of
        one position the one that made it was heard, and whether the late ones were is not known.
        """
        if family_of(position) != family_of(self._start):
            return None
        if position < self._start or (position == self._start and self._starts_late):
            return None
        for number, told in enumerate(self._events, self.first):
            if told.position > position or (told.position == position and told.is_late):
                return number
        return self.end


def weight_of(told: Told) -> int:
    """About how many bytes an event takes."""
    return len(told.body) + _OVERHEAD
