"""Targets count what is under way to each receiver, so that a slow one delays only itself.

A timer is started if its receiver and the node have a place free. Otherwise it waits in its
receiver's queue, which is served as places become free. Every receiver is sure of a short queue,
and all share a longer one, so that a burst is not read from the store again and again; beyond
that a timer goes back to being a row in the store. So a receiver that never answers holds a few
places and bounded memory.

How many places a receiver has, it earns: a few at first, one more with every answer up to its
limit, and half as many after every attempt that timed out. So it takes hundreds of receivers that
hang to fill a node, and one that recovers is back to its limit in moments.

Each tenant's callbacks count by themselves: what one does to a receiver that others call as well
costs them no places, and none of them waits in the queue of another.

A receiver that is paused, or keeps failing, has no places, or just one (``gates.py``). When it is
open again, it begins with few. A timer whose deadline passes while it waits waits no longer.

A receiver that takes callbacks quickly may have some claimed ahead: twice as many as it has
answered since the last ones were claimed, but for the first. They are claimed by the dozen then,
not one by one.
"""

from collections import deque
from collections.abc import Callable

from duetime.clock import Millis, SystemClock
from duetime.engine.deadlines import Deadlines
from duetime.engine.gates import Gates
from duetime.engine.turned_away import TurnedAway
from duetime.stores import Waking
from duetime.timer import Kind, Timer

# How many times the places of a receiver may be claimed ahead.
MOST_AHEAD = 3

FIRST_PLACES = 8  # so few that a node with 1000 holds a hundred receivers that hang
LEAST_PLACES = 4  # one that times out keeps these, to earn more by answering
MOST_REMEMBERED = 4096  # receivers that nothing is under way to, and what they have earned

_ANSWERS = frozenset({Kind.OK, Kind.HTTP})

# For the memory of a node: large timers fill it before their number does.
MOST_BYTES_UNDER_WAY = 256 * 1024 * 1024
MOST_BYTES_WAITING = 64 * 1024 * 1024
SURE_BYTES = 64 * 1024  # that every receiver may have waiting, however many wait for others


class Target:
    """One receiver."""

    __slots__ = (
        "ahead",
        "answers",
        "name",
        "places",
        "under_way",
        "waiting",
        "weight",
    )

    def __init__(self, name: str, places: int) -> None:
        self.name = name
        self.places = places  # that it has earned
        self.under_way = 0  # claimed, or being claimed
        self.answers = 0  # since the last time that some were claimed
        self.ahead = 0  # how many may be claimed beyond the places that it has
        self.waiting: deque[Timer] = deque()
        self.weight = 0  # of those that wait


class Targets:
    """Every receiver that something is under way to, or waiting for."""

    def __init__(
        self,
        *,
        per_target: int,
        total: int,
        queue: int = 1_000,
        shared: int = 10_000,
        on_room: Callable[[], None] = lambda: None,
        on_free_place: Callable[[], None] = lambda: None,
        gates: Gates | None = None,
    ) -> None:
        self._per_target = per_target
        self._total = total
        self._queue = queue
        self._shared = shared  # up to so many in all, queues may be longer
        self._on_free_place = on_free_place  # called when somebody may be waiting for it
        self._targets: dict[str, Target] = {}
        self._remembered: dict[str, int] = {}  # the places of receivers that are not among them
        self._serveable: dict[str, Target] = {}  # those with a queue and a free place, in turn
        self._waiting: dict[str, int] = {}  # the version of each timer that waits
        self._squeezed: dict[str, Target] = {}  # with a queue, and fewer places than they earned
        self._weight = 0  # of those that wait
        self._load = 0  # the weight of what is under way
        self.under_way = 0
        self._away = TurnedAway(on_room)  # those that found their queue full
        self._gates = gates or Gates(SystemClock())
        self._deadlines = Deadlines(self._waits_as)

    @property
    def free(self) -> int:
        """How many more attempts this node may have under way."""
        return 0 if self._load >= MOST_BYTES_UNDER_WAY else self._total - self.under_way

    def is_waiting(self, id_: str, version: int) -> bool:
        """Tell whether a timer stands in a queue here as it is now, or newer; or did not fit in."""
        return self._waiting.get(id_, 0) >= version or self._away.knows(id_, version)

    @property
    def has_recalled(self) -> bool:
        """Tell whether some of those that were turned away may come again."""
        return self._away.has_recalled

    def recalled(self) -> list[Waking]:
        """Take those that were turned away and may come again."""
        return self._away.recalled()

    @property
    def turned_away(self) -> int:
        """How many found their queue full and are not remembered, ever."""
        return self._away.forgotten

    def begin(self, name: str, timer: Timer, *, at_once: bool = False) -> bool:
        """Take a place for a timer, or let it wait; False if it has to wait or was sent back.

        ``at_once``: it is not to be sent, and needs no place but to be written down.
        """
        target = self._targets.get(name)
        if target is None:
            places = self._remembered.pop(name, FIRST_PLACES)
            target = self._targets[name] = Target(name, min(places, self._per_target))
        has_place = self.free > 0 and not target.waiting
        if at_once or (has_place and target.under_way < self._places(target)):
            self._occupy(target, timer)
            return True
        if self._waiting.get(timer.id, 0) >= timer.version:
            return False
        self._away.has_come(name, timer.id)
        if self._has_room_in(target):
            target.waiting.append(timer)
            self._waiting[timer.id] = timer.version
            self._weight += timer.weight
            target.weight += timer.weight
            self._note_serveable(target)
        else:
            self._away.add(name, timer)
        self._deadlines.add(name, timer)
        return False

    def recall_late(self, now: Millis) -> None:
        """Let those come again whose deadline has passed as they waited: they can be ended."""
        for name, line in self._deadlines.passed(now):
            # One that waits in a queue stays there; what it was is found to have changed.
            self._waiting.pop(line.id, None)
            self._away.let_come(name, line)

    def next_deadline(self) -> Millis | None:
        """When the next deadline of those that wait passes."""
        return self._deadlines.next_at()

    def begin_anew(self, name: str) -> None:
        """Give a receiver that was shut few places, which it earns by answering, as a new one."""
        self._remembered.pop(name, None)
        if target := self._targets.get(name):
            target.places = min(target.places, FIRST_PLACES)
            target.answers = target.ahead = 0
            if target.waiting:
                self._note_serveable(target)

    def next_waiting(self, limit: int) -> list[tuple[str, Timer]]:
        """Take places for timers that waited, one receiver after the other."""
        for target in self._serveable.values():
            self._look_ahead(target)
        begun: list[tuple[str, Timer]] = []
        while len(begun) < limit and self._serveable:
            # A fair share each, in turn; one that is served alone takes it all at once.
            share = -(-(limit - len(begun)) // len(self._serveable))
            for name, target in list(self._serveable.items()):
                room = self._room(target)
                count = max(min(share, room, len(target.waiting), limit - len(begun)), 0)
                for _ in range(count):
                    if self.free <= 0:
                        return begun  # large ones have filled the node before their number did
                    timer = target.waiting.popleft()
                    self._weight -= timer.weight
                    target.weight -= timer.weight
                    self._occupy(target, timer)
                    if self._waiting.get(timer.id) == timer.version:
                        del self._waiting[timer.id]
                    begun.append((name, timer))
                self._call_back(target)
                del self._serveable[name]
                if count >= room or not target.waiting:
                    self._note_serveable(target)
                else:
                    self._serveable[name] = target  # behind the others
        return begun

    def places(self, name: str) -> int:
        """How many places a receiver has earned."""
        target = self._targets.get(name)
        if target is None:
            return FIRST_PLACES
        if self._gates.is_probed(name):  # beside those that were under way when it was shut
            return max(target.places, target.under_way)
        return target.places

    def counts(self) -> dict[str, tuple[int, int]]:
        """How many wait for each receiver, and are under way to it, where there are any."""
        return {name: self.count(name) for name in self._targets}

    def count(self, name: str) -> tuple[int, int]:
        """How many wait for a receiver, and are under way to it."""
        target = self._targets.get(name)
        if target is None:
            return 0, 0
        return len(target.waiting) + self._away.count(name), target.under_way

    def end(self, name: str, timer: Timer, kind: Kind) -> None:
        """Give back the place of an attempt that has ended so."""
        target = self._targets[name]
        if kind in _ANSWERS:
            target.answers += 1
            target.places = min(target.places + 1, self._per_target)
        elif kind is Kind.TIMEOUT:
            target.answers = target.ahead = 0
            target.places = max(target.places // 2, min(LEAST_PLACES, self._per_target))
        self.leave(name, timer)

    def leave(self, name: str, timer: Timer) -> None:
        """Give back a place that was not used."""
        target = self._targets[name]
        self._gates.left(name, timer.id)
        was_full = self.free <= 0
        target.under_way -= 1
        self.under_way -= 1
        self._load -= timer.weight
        if target.waiting:
            self._note_serveable(target)
        elif target.under_way == 0:
            del self._targets[name]
            self._call_back(target)
            self._away.forget(name)
            self._remember(target)
        if self._squeezed:  # one place has become free, so one of them is looked at, in turn
            self._note_serveable(next(iter(self._squeezed.values())))
        if was_full or self._serveable:
            self._on_free_place()

    def oldest_waiting(self) -> Millis | None:
        """When the timer was due that has waited longest for a receiver that is not shut."""
        heads = (
            target.waiting[0].wake_at
            for name, target in self._targets.items()
            if target.waiting and not self._gates.is_shut(name)
        )
        return min((at for at in heads if at is not None), default=None)

    def has_serveable(self) -> bool:
        """Tell whether somebody waits who could be served."""
        return bool(self._serveable)

    def _waits_as(self, id_: str, version: int) -> bool:
        """Tell whether a timer waits here, or was turned away, in this very version."""
        return self._waiting.get(id_) == version or self._away.version(id_) == version

    def _has_room_in(self, target: Target) -> bool:
        """Tell whether one more may wait: few at each receiver for sure, more while all have room.

        Large ones at one receiver take a part of what all have, no more.
        """
        if len(target.waiting) < self._queue and target.weight < SURE_BYTES:
            return True
        if self._weight >= MOST_BYTES_WAITING or target.weight >= _most_bytes_for_one():
            return False
        return len(self._waiting) < self._shared or len(target.waiting) < self._queue

    def _call_back(self, target: Target) -> None:
        """Let as many of those that were turned away come again as there is room for."""
        if self._away.is_any(target.name) and self._is_half_empty(target):
            self._away.call(
                target.name,
                count=self._queue - len(target.waiting),
                room=max(_most_bytes_for_one() - target.weight, SURE_BYTES),
                is_queue_empty=not target.waiting,
            )

    def _is_half_empty(self, target: Target) -> bool:
        """Tell whether a receiver's queue could do with more."""
        if len(target.waiting) >= self._queue // 2:
            return False
        return target.weight < SURE_BYTES or (
            target.weight < _most_bytes_for_one() // 2 and self._weight < MOST_BYTES_WAITING
        )

    def _places(self, target: Target) -> int:
        """How many a receiver may have now: what it has earned, or a part of what is left to all.

        So receivers that answered quickly and then hang do not take the last places of a node.
        """
        places = self._gates.places(target.name, target.under_way)
        if places is not None:  # what was claimed ahead would have to be handed back
            target.answers = target.ahead = 0
            return places
        return min(target.places, max(self.free // 4, 1))

    def _room(self, target: Target) -> int:
        """How many more a receiver may have under way, with those that are claimed ahead."""
        places = self._places(target)  # which may end that some are claimed ahead
        return places + target.ahead - target.under_way

    def _remember(self, target: Target) -> None:
        if target.places != FIRST_PLACES:
            self._remembered[target.name] = target.places
            if len(self._remembered) > MOST_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]

    def _occupy(self, target: Target, timer: Timer) -> None:
        target.under_way += 1
        self.under_way += 1
        self._load += timer.weight
        self._gates.begun(target.name, timer.id)

    def _look_ahead(self, target: Target) -> None:
        is_roomy = self.free > self._total // 2  # none is claimed ahead at the cost of others
        most = MOST_AHEAD * self._per_target if is_roomy else 0
        target.ahead = max(min(2 * (target.answers - 1), most), 0)
        target.answers = 0

    def _note_serveable(self, target: Target) -> None:
        """Let those who wait be served, once there is room for a good number of them."""
        self._squeezed.pop(target.name, None)
        room = self._room(target)
        if not target.waiting:
            return
        if room >= max(target.ahead // 2, 1):
            self._serveable[target.name] = target
        elif target.under_way < target.places and not self._gates.is_shut(target.name):
            self._squeezed[target.name] = target


def _most_bytes_for_one() -> int:
    return MOST_BYTES_WAITING // 4
