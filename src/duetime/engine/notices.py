"""Notices: what becomes of a timer that this node has just written, so that no poll must find it.

It goes onto the agenda, if it wakes in the stretch of time that was read already. One that another
node looks after is passed on, unless it is due before that one could hear of it.
"""

from collections.abc import Callable

from duetime.clock import Clock, Millis
from duetime.engine.agenda import Agenda
from duetime.engine.herald import Herald
from duetime.engine.members import Members
from duetime.engine.reader import Reader
from duetime.engine.targets import Targets
from duetime.stores import Waking
from duetime.timer import Timer

# A timer that is due so soon is started by the node that wrote it: passing it on takes longer.
IMMINENT: Millis = 20


class Notices:
    """Takes note of timers."""

    def __init__(
        self,
        clock: Clock,
        agenda: Agenda,
        *,
        members: Members,
        herald: Herald,
        reader: Reader,
        targets: Targets,
        wake: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._agenda = agenda
        self._members = members
        self._herald = herald
        self._reader = reader
        self._targets = targets
        self._wake = wake
        self.is_starting = True  # timers that are due; False at the end of a stop

    def notice(self, timer: Timer) -> None:
        """Take note of a timer; what was noted of it before is out of date."""
        self._targets.queues.forget_older(timer.id, timer.version)
        wake_at = timer.wake_at
        if wake_at is None:
            self._agenda.forget(timer.id)
            return
        now = self._clock.now()
        if self._is_left_to_others(timer, wake_at, now):
            self._agenda.forget(timer.id)
            if self._reader.is_near(wake_at):
                self._herald.tell(Waking.of(timer))
        elif not self._reader.has_read(wake_at):
            self._agenda.forget(timer.id)
        elif self._agenda.has_room_for(wake_at, timer.weight, now) and self._agenda.leaves_room(
            timer, now
        ):
            is_news = self._agenda.put(timer, now)
            if is_news and self._agenda.next_at() == wake_at:
                self._wake()
        # Else memory stays bounded: it will be found when it is late.

    def _is_left_to_others(self, timer: Timer, wake_at: Millis, now: Millis) -> bool:
        if self._members.is_mine(timer.id):
            return False
        return not self.is_starting or wake_at > now + IMMINENT
