"""The agenda holds, in memory and in order, the timers that are due soon or late already.

It is a hint like the due index it is read from: whatever is on it is claimed by its version, so
an entry that is out of date costs one lost race. It is bounded, in number and in bytes; what does
not fit stays in the store and is read again.

It has two columns. Timers that come up in time go into one, those that were late when they were
found into the other, and both are served: a backlog is worked off oldest first, and what is due
now does not queue behind it.

Where there are several tenants, they take turns in both, and none fills them: what one has beyond
its part is remembered by a line each, and called back when there is room. So whoever has much to do
is not read again and again, and the reader comes across what others have behind it.
"""

from collections.abc import Callable, Iterable
from itertools import count, product

from duetime.clock import Millis
from duetime.engine.column import Column
from duetime.engine.turned_away import TurnedAway
from duetime.stores import Waking
from duetime.timer import Status, Timer

LATE: Millis = 1_000  # later than this when it is found: it belongs to the backlog
MOST_CALLED = 1_000  # timers of one tenant that come again at once
BYTES_CALLED = 8 * 1024 * 1024


class Agenda:
    """What is to be started, and when. ``on_room`` is called when some may come again."""

    def __init__(
        self,
        is_shared: Callable[[], bool] = lambda: False,
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._is_shared = is_shared  # by several tenants
        self._versions: dict[str, int] = {}
        self._in_time = Column(self._versions)
        self._backlog = Column(self._versions)
        self._away = TurnedAway(on_room)  # what tenants have beyond their part
        self._sequence = count()

    def __len__(self) -> int:
        return len(self._versions)

    def __contains__(self, id_: str) -> bool:
        return id_ in self._versions

    @property
    def room(self) -> int:
        """How many more timers that come up in time may be put on it."""
        return self._in_time.room

    @property
    def backlog_room(self) -> int:
        """How many more late timers may be put on it."""
        return self._backlog.room

    def knows(self, id_: str, version: int) -> bool:
        """Tell whether a timer is on it as it is now, or newer; or did not fit in."""
        return self._versions.get(id_, 0) >= version or self._away.knows(id_, version)

    def has_room_for(self, wake_at: Millis, weight: int, now: Millis) -> bool:
        """Tell whether there is room for such a timer in the column that it belongs to."""
        return self._column(wake_at, now).has_room_for(weight)

    @property
    def is_shared(self) -> bool:
        """Tell whether it is several tenants' agenda."""
        return self._is_shared()

    def leaves_room(self, timer: Timer, now: Millis) -> bool:
        """Tell whether a timer's tenant has so few here that others have room as well.

        If not, the timer is remembered, and called back when it has fewer.
        """
        if not self._is_shared():
            return True
        column = self._column(timer.wake_at or now, now)
        if column.has_room_beside_others(timer.tenant, timer.weight):
            return True
        self._away.add(self._crowd(timer.tenant, column), timer)
        return False

    def call_back(self, tenants: Iterable[str] | None = None) -> None:
        """Let some of those come again that had to leave room to others, if there is room now."""
        if tenants is None:
            tenants = {crowd.partition(" ")[0] for crowd in self._away.names}
        for tenant, column in product(tenants, (self._in_time, self._backlog)):
            crowd = self._crowd(tenant, column)
            if self._away.is_any(crowd) and column.has_room_beside_others(tenant, 0, part=2):
                is_empty = column.is_empty_of(tenant)
                self._away.call(crowd, MOST_CALLED, BYTES_CALLED, is_queue_empty=is_empty)

    @property
    def has_recalled(self) -> bool:
        """Tell whether some may come again."""
        return self._away.has_recalled

    def recalled(self) -> list[Waking]:
        """Take those that may come again."""
        return self._away.recalled()

    @property
    def turned_away(self) -> int:
        """How many had to leave room to others and are not remembered, ever."""
        return self._away.forgotten

    def put(self, timer: Timer, now: Millis) -> bool:
        """Note down a timer; tells whether that was news."""
        if timer.wake_at is None or self._versions.get(timer.id, 0) >= timer.version:
            return False
        self._versions[timer.id] = timer.version
        for column in (self._in_time, self._backlog) if self._away.names else ():
            self._away.has_come(self._crowd(timer.tenant, column), timer.id)
        # What another node has claimed is taken up when that has run out, and not a moment before.
        is_claimed = timer.status is Status.EXECUTING
        column = self._backlog if is_claimed else self._column(timer.wake_at, now)
        column.push(timer.wake_at, next(self._sequence), timer)
        return True

    def hasten(self, timer: Timer, now: Millis) -> None:
        """Note down a timer as due now, whenever it would wake."""
        if self._versions.get(timer.id, 0) <= timer.version:
            self._versions[timer.id] = timer.version
            self._in_time.push(now, next(self._sequence), timer)

    def forget(self, id_: str) -> None:
        """Strike a timer off."""
        self._versions.pop(id_, None)

    def drop(self, is_unwanted: Callable[[Timer], bool]) -> list[Timer]:
        """Strike off all that are unwanted; answers with them."""
        return self._in_time.drop(is_unwanted) + self._backlog.drop(is_unwanted)

    def take(self, now: Millis, limit: int, until: Millis | None = None) -> list[Timer]:
        """Take off up to so many timers that are due, both columns having their share.

        ``until``: those that come up in time, also if they are due only then.
        """
        until = now if until is None else until
        in_time = self._in_time.take(until, (limit + 1) // 2)
        backlog = self._backlog.take(now, limit - len(in_time))
        taken = in_time + backlog + self._in_time.take(until, limit - len(in_time + backlog))
        if taken and len(self._away):
            self.call_back({timer.tenant for timer in taken})
        return taken

    def next_at(self) -> Millis | None:
        """When the next timer is due."""
        firsts = (self._in_time.next_at, self._backlog.next_at)
        return min((at for at in firsts if at is not None), default=None)

    def next_in_time(self) -> Millis | None:
        """When the next timer is due that was not late already when it was found."""
        return self._in_time.next_at

    def _crowd(self, tenant: str, column: Column) -> str:
        """What those of a tenant are called who did not fit into a column; it has no space."""
        return f"{tenant} late" if column is self._backlog else f"{tenant} in time"

    def _column(self, wake_at: Millis, now: Millis) -> Column:
        return self._backlog if wake_at < now - LATE else self._in_time
