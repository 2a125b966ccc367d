"""The heir takes up what dead nodes left executing, without waiting for their claims to run out.

A node that is known to be dead sends nothing more: its lease has ended. So each of those that are
left looks through the due index of its shards for claims, and puts those of the dead onto its
agenda as due now. Whoever of them comes back meanwhile holds another lease, and may have claimed
anew under it. So before anything is taken up, the records are read once more: a node whose record
still stands as it was has claimed nothing since.
"""

from collections.abc import Callable, Collection, Mapping

from duetime.clock import Clock, Millis
from duetime.engine.agenda import Agenda
from duetime.engine.members import Members
from duetime.engine.reader import PAGE, PORTION
from duetime.stores import Due, Store
from duetime.stores.portions import portions
from duetime.timer import Status, Timer

IDLE = 60.0


class Heir:
    """Looks for claims of dead nodes."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        agenda: Agenda,
        *,
        members: Members,
        is_in_hand: Callable[[str, int], bool],
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._agenda = agenda
        self._members = members
        self._is_in_hand = is_in_hand
        self._wake = wake
        self._page = PAGE
        self._dead: frozenset[str] = frozenset()
        self._place = Due(0, "")
        self._until: Millis = 0

    def inherit(self, dead: Mapping[str, Millis]) -> None:
        """Look for claims of these nodes, each with how long its claims hold.

        As long again is added, for wall clocks that differ.
        """
        now = self._clock.now()
        self._dead = frozenset(dead)
        self._place, self._until = Due(now, ""), now + 2 * max(dead.values())
        self._wake()

    async def step(self) -> float:
        """Look through a page of the due index."""
        if not self._dead:
            return IDLE
        dead, shards = self._dead, self._members.shards
        lines = await self._store.due(shards, self._place, self._until, self._page)
        claimed = [
            line
            for line in lines
            if line.is_claimed and not self._is_in_hand(line.id, line.version)
        ]
        for part in portions(
            claimed, lambda line: line.weight, heaviest=PORTION, longest=self._page
        ):
            stored = await self._store.get([line.id for line in part])
            await self._take_up([timer for timer in stored if timer and _is_left_by(dead, timer)])
        if self._dead is not dead:
            return 0  # more have died meanwhile: it begins anew
        if len(lines) < self._page:
            self._dead = frozenset()
            return IDLE
        self._place = lines[-1].place
        return 0

    async def _take_up(self, left: list[Timer]) -> None:
        """Put claims onto the agenda as due now; what finds no room runs out by itself."""
        still_dead = await self._members.still_dead() if left else ()
        now = self._clock.now()
        for timer in left:
            has_room = self._agenda.has_room_for(now, timer.weight, now)
            if has_room and timer.progress.claimed_by in still_dead:
                self._agenda.hasten(timer, now)


def _is_left_by(dead: Collection[str], timer: Timer) -> bool:
    return timer.status is Status.EXECUTING and timer.progress.claimed_by in dead
