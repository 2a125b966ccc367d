"""Targets are the receivers that something is under way to, or waits for: a slow one delays itself.

A timer is started if its receiver, its group, its tenant and the node have a place for it
(``places.py``). Otherwise it waits in its lane (``lanes.py``), which is served in its turn
(``turns.py``). So a receiver that never answers holds a few places and bounded memory
(``queues.py``).

A receiver that is paused, or keeps failing, has no places, or just one (``gates.py``). When it is
open again, it begins with few. A timer whose deadline passes while it waits waits no longer.

Each tenant's callbacks count by themselves: what one does to a receiver that others call as well
costs them no places, and none of them waits in the queue of another.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from duetime.clock import Millis, SystemClock
from duetime.engine.gates import Gates
from duetime.engine.lanes import Lane, Party, Target
from duetime.engine.places import FIRST_PLACES, Places
from duetime.engine.queues import Queues
from duetime.engine.throttles import Throttles
from duetime.engine.turns import Turns
from duetime.stores import Waking
from duetime.tenancy import group
from duetime.timer import Kind, Timer

MOST_REMEMBERED = 4096  # receivers that nothing is under way to, and what they have earned


class Targets:
    """Every receiver that something is under way to, or waiting for."""

    def __init__(
        self,
        *,
        per_target: int,
        total: int,
        throttles: Throttles,
        queue: int = 1_000,
        shared: int = 10_000,
        on_room: Callable[[], None] = lambda: None,
        on_free_place: Callable[[], None] = lambda: None,
        gates: Gates | None = None,
        is_posted: Callable[[Timer], bool] = lambda _: False,
    ) -> None:
        self._is_posted = is_posted
        self._throttles = throttles
        self._on_free_place = on_free_place  # called when somebody may be waiting for it
        self._targets: dict[str, Target] = {}
        self._tenants: dict[str, Party] = {}
        self._remembered: dict[str, int] = {}  # the places of receivers that are not among them
        self._gates = gates or Gates(SystemClock())
        self._places = Places(
            per_target=per_target, total=total, throttles=throttles, gates=self._gates
        )
        self.queues = Queues(sure=queue, shared=shared, on_room=on_room)
        self._turns = Turns(self._places, self.queues)

    @property
    def free(self) -> int:
        """How many more attempts this node may have under way."""
        return self._places.free

    @property
    def under_way(self) -> int:
        """How many attempts this node has under way, or claims just now."""
        return self._places.under_way

    def is_waiting(self, id_: str, version: int) -> bool:
        """Tell whether a timer stands in a queue here as it is now, or newer; or did not fit in."""
        return self.queues.is_waiting(id_, version)

    @property
    def has_recalled(self) -> bool:
        """Tell whether some of those that were turned away may come again."""
        return self.queues.away.has_recalled

    def recalled(self) -> list[Waking]:
        """Take those that were turned away and may come again."""
        return self.queues.away.recalled()

    @property
    def turned_away(self) -> int:
        """How many found their queue full and are not remembered, ever."""
        return self.queues.away.forgotten

    def begin(
        self, name: str, timer: Timer, *, may_start: bool = True, at_once: bool = False
    ) -> bool:
        """Take a place for a timer, or let it wait; False if it has to wait or was sent back.

        ``at_once``: it is not to be sent, and needs no place but to be written down.
        """
        target = self._targets.get(name)
        lane = None if target is None else target.lanes.get(timer.group)
        if lane is None:
            lane = self._open(name, timer)
        has_place = at_once or (not lane.waiting and self._places.may_begin(lane))
        if may_start and has_place:
            self._places.occupy(lane, timer)
            return True
        had_waiting = bool(lane.waiting)
        if self.queues.add(lane, timer) and (not had_waiting or self._turns.is_squeezed(lane)):
            self._turns.note(lane)  # elsewhere, one more behind others changes nothing
        return False

    def recall_late(self, now: Millis) -> None:
        """Let those come again whose deadline has passed as they waited: they can be ended."""
        self.queues.recall_late(now)

    def next_deadline(self) -> Millis | None:
        """When the next deadline of those that wait passes."""
        return self.queues.deadlines.next_at()

    def begin_anew(self, name: str) -> None:
        """Give a receiver that was shut few places, which it earns by answering, as a new one."""
        self._remembered.pop(name, None)
        if target := self._targets.get(name):
            target.places = min(target.places, FIRST_PLACES)
            target.answers = target.ahead = 0
            for lane in target.lanes.values():
                self._turns.note(lane)

    def next_waiting(self, limit: int) -> list[tuple[str, Timer]]:
        """Take places for timers that waited, in fair turns."""
        if self._throttles.have_changed():
            self._go_by_other_limits()
        return self._turns.serve(limit)

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
        return sum(map(self.queues.count, target.lanes.values())), target.under_way

    def end(self, name: str, timers: Sequence[Timer], kind: Kind) -> None:
        """Give back the places of attempts that have ended so."""
        self._places.earn(self._targets[name], kind, len(timers))
        was_sent = kind is not Kind.UNSENT
        if len(timers) == 1:
            self._leave(name, timers[0].group, timers, was_sent=was_sent)
            return
        by_group: dict[str, list[Timer]] = {}
        for timer in timers:
            by_group.setdefault(timer.group, []).append(timer)
        for group_name, those in by_group.items():
            self._leave(name, group_name, those, was_sent=was_sent)

    def leave(self, name: str, timer: Timer) -> None:
        """Give back a place that was not used."""
        self._leave(name, timer.group, [timer], was_sent=False)

    def oldest_waiting(self) -> Millis | None:
        """When the timer was due that has waited longest, but for what limits and gates hold."""
        heads = (
            self.queues.first(lane)
            for lane in self._lanes()
            if not lane.is_throttled and not self._gates.are_before(lane.target.name)
        )
        times = (head.wake_at for head in heads if head is not None and self.queues.has(head))
        return min((at for at in times if at is not None), default=None)

    def has_serveable(self) -> bool:
        """Tell whether somebody waits who could be served."""
        return bool(self._turns)

    def next_token(self) -> float | None:
        """After how many seconds somebody whose limits said no can be served, if ever."""
        return self._turns.next_token()

    def waiting_by_limit(self) -> dict[str, int]:
        """How many wait under each name that has limits."""
        counts = Counter[str]()
        for lane in self._lanes():
            if lane.is_throttled:
                for each in (lane.target, lane.group, lane.tenant):
                    if each.throttle is not None:
                        counts[each.name] += self.queues.count(lane)
        return counts

    def _lanes(self) -> Iterator[Lane]:
        return (lane for target in self._targets.values() for lane in target.lanes.values())

    def _leave(
        self, name: str, group_name: str, timers: Sequence[Timer], *, was_sent: bool
    ) -> None:
        lane, was_full = self._targets[name].lanes[group_name], self.free <= 0
        self._places.vacate(lane, timers, was_sent=was_sent)
        self._turns.note_free(lane)
        if not lane.under_way and not lane.waiting:
            self._close(lane, group_name)
        if was_full or self._turns or self._turns.has_squeezed:
            self._on_free_place()

    def _open(self, name: str, timer: Timer) -> Lane:
        """Make a lane for a timer, with whatever of its receiver and group is not known."""
        target = self._targets.get(name)
        if target is None:
            target = self._targets[name] = self._meet(name, timer)
        tenant = self._tenants.get(timer.tenant)
        if tenant is None:
            throttle = self._throttles.find(timer.tenant)
            tenant = self._tenants[timer.tenant] = Party(timer.tenant, None, throttle)
        party = tenant.groups.get(timer.group)
        if party is None:
            full_name = group.name_of(timer.tenant, timer.group)
            party = Party(full_name, tenant, self._throttles.find(full_name))
            tenant.groups[timer.group] = party
        party.lanes += 1
        lane = target.lanes[timer.group] = Lane(target, party, tenant)
        return lane

    def _meet(self, name: str, timer: Timer) -> Target:
        is_posted = self._is_posted(timer)
        most = self._places.most(is_posted=is_posted)
        places = self._remembered.pop(name, most if is_posted else FIRST_PLACES)
        throttle = self._throttles.find(name)
        return Target(name, min(places, most), throttle, most=most, is_posted=is_posted)

    def _close(self, lane: Lane, group_name: str) -> None:
        """Forget a lane in which nothing is under way any more, or waits."""
        target, party, tenant = lane.target, lane.group, lane.tenant
        self.queues.forget(lane)
        del target.lanes[group_name]
        if not target.lanes:
            del self._targets[target.name]
            self._turns.forget(target.name)
            self._remember(target)
        party.lanes -= 1
        if not party.lanes:
            del tenant.groups[group_name]
            self._turns.forget(party.name)
        if not tenant.groups:
            del self._tenants[tenant.name]
            self._turns.forget(tenant.name)

    def _go_by_other_limits(self) -> None:
        for target in self._targets.values():
            target.throttle = self._throttles.find(target.name)
        for tenant in self._tenants.values():
            for each in (tenant, *tenant.groups.values()):
                each.throttle = self._throttles.find(each.name)
        for lane in self._lanes():
            lane.look_at_throttles()

    def _remember(self, target: Target) -> None:
        if target.places != FIRST_PLACES:
            self._remembered[target.name] = target.places
            if len(self._remembered) > MOST_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
