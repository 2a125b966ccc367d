"""Turned away: timers that found their receiver's queue full, and are rows in the store again.

They are remembered by a line each, so that they are not read again and again meanwhile, and are
called back, in turn, when the queue has room.
"""

from collections.abc import Callable, Collection

from duetime.stores import Waking
from duetime.timer import Timer

MOST_AWAY = 100_000  # timers remembered: a few hundred bytes each


class _Crowd:
    """Those of one receiver."""

    __slots__ = ("called", "lines")

    def __init__(self) -> None:
        self.lines: dict[str, Waking] = {}  # in turn
        self.called: set[str] = set()  # may come again, and have not yet


class TurnedAway:
    """Everybody who was turned away. ``on_room`` is called when some may come again."""

    def __init__(self, on_room: Callable[[], None]) -> None:
        self._on_room = on_room
        self._crowds: dict[str, _Crowd] = {}  # by receiver
        self._versions: dict[str, int] = {}  # of each timer
        self._recalled: list[Waking] = []
        self.forgotten = 0  # how many there were too many of to remember, ever

    def __len__(self) -> int:
        return len(self._versions)

    @property
    def names(self) -> Collection[str]:
        """Who has turned some away, and may have some left."""
        return self._crowds

    def knows(self, id_: str, version: int) -> bool:
        """Tell whether a timer was turned away as it is now, or newer."""
        return self._versions.get(id_, 0) >= version

    def version(self, id_: str) -> int | None:
        """In which version a timer was turned away, if it was."""
        return self._versions.get(id_)

    def add(self, name: str, timer: Timer) -> None:
        """Remember a timer, if there are not too many already."""
        if len(self._versions) >= MOST_AWAY and timer.id not in self._versions:
            self.forgotten += 1
            return
        self._versions[timer.id] = timer.version
        crowd = self._crowds.get(name)
        if crowd is None:
            crowd = self._crowds[name] = _Crowd()
        crowd.lines[timer.id] = Waking.of(timer)

    def has_come(self, name: str, id_: str) -> bool:
        """Take note that a timer is here; tells whether it was called."""
        crowd = self._crowds.get(name)
        if crowd is None or id_ not in crowd.called:
            return False
        crowd.called.discard(id_)
        return True

    def is_any(self, name: str) -> bool:
        """Tell whether some were turned away by this receiver."""
        crowd = self._crowds.get(name)
        return crowd is not None and bool(crowd.lines)

    def count(self, name: str) -> int:
        """How many were turned away by this receiver."""
        crowd = self._crowds.get(name)
        return 0 if crowd is None else len(crowd.lines)

    def call(self, name: str, count: int, room: int, *, is_queue_empty: bool) -> None:
        """Let so many of a receiver's come again, and of so many bytes.

        While some that were called are on their way, others are not, unless the queue has run
        empty: those may have changed meanwhile, and never come.
        """
        crowd = self._crowds[name]
        if crowd.called and not is_queue_empty:
            return
        crowd.called.clear()
        while crowd.lines and count > 0 and room > 0:
            id_ = next(iter(crowd.lines))
            line = crowd.lines.pop(id_)
            self._versions.pop(id_, None)
            self._recalled.append(line)
            crowd.called.add(id_)
            count -= 1
            room -= line.weight
        self._on_room()

    def let_come(self, name: str, line: Waking) -> None:
        """Let one come again now, whether or not there is room for it."""
        if (crowd := self._crowds.get(name)) and crowd.lines.pop(line.id, None):
            self._versions.pop(line.id, None)
        self._recalled.append(line)
        self._on_room()

    @property
    def has_recalled(self) -> bool:
        """Tell whether some may come again."""
        return bool(self._recalled)

    def recalled(self) -> list[Waking]:
        """Take those that may come again."""
        recalled, self._recalled = self._recalled, []
        return recalled

    def forget(self, name: str) -> None:
        """Nothing is under way to a receiver any more, or waits for it."""
        if crowd := self._crowds.pop(name, None):
            for id_ in crowd.lines:
                self._versions.pop(id_, None)
