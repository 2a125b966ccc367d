"""Turns: whose timers are served next, of those that wait.

Those that could be served take turns on three levels: first the tenants, then the groups of each,
then the receivers of each. So whoever has many timers, many groups or many receivers gets no more
turns for it. Who could be served but for their limits stands aside until these allow it.
"""

from duetime.engine.lanes import Lane, Party, Target
from duetime.engine.places import Places
from duetime.engine.queues import Queues
from duetime.timer import Timer


class Turns:
    """All that wait: who has turns, and who stands aside."""

    def __init__(self, places: Places, queues: Queues) -> None:
        self._places = places
        self._queues = queues
        self._tenants: dict[str, Party | Lane] = {}  # that have something that could be served
        self._stopped: dict[str, Party | Target] = {}  # who could be served but for their limits
        self._squeezed: dict[Lane, None] = {}  # that wait because the node has few places left
        self._crowding: dict[str, Party] = {}  # tenants that must leave the last places to others
        self._pass = 0

    def __bool__(self) -> bool:
        """Tell whether somebody waits who could be served."""
        return bool(self._tenants)

    @property
    def has_squeezed(self) -> bool:
        """Tell whether somebody waits for a place of the node, whosever."""
        return bool(self._squeezed or self._crowding)

    def is_squeezed(self, lane: Lane) -> bool:
        """Tell whether a lane waits for a place of the node, as far as anybody has looked."""
        return lane in self._squeezed

    def serve(self, limit: int) -> list[tuple[str, Timer]]:
        """Take places for so many, in fair turns."""
        for each in list(self._stopped.values()):
            self._let_go_on(each)
        begun: list[tuple[str, Timer]] = []
        self._pass += 1
        while len(begun) < limit and self._places.free > 0 and (self._tenants or self._find()):
            self._serve(self._tenants, limit - len(begun), begun)
        return begun

    def note(self, lane: Lane) -> None:
        """Let those who wait be served, once there is room for a good number of them."""
        target = lane.target
        self._squeezed.pop(lane, None)
        target.blocked.pop(lane, None)
        if not lane.waiting:
            return
        if target.throttle is not None and self._places.tokens(target) <= 0:
            self._stopped[target.name] = target
            target.blocked[lane] = None
        elif self._places.room(target) >= max(target.ahead // 2, 1):
            lane.group.turns[lane.name] = lane
            self._note_party(lane.group)
        elif target.under_way < target.places and not self._places.is_shut(target):
            self._squeezed[lane] = None
        else:
            target.blocked[lane] = None

    def note_free(self, lane: Lane) -> None:
        """Take note that an attempt of this lane has ended."""
        target, tenant = lane.target, lane.tenant
        if target.blocked and target.name not in self._stopped:
            for blocked in list(target.blocked):
                self.note(blocked)
        # Nobody looks for these while others have turns, which may be for ever.
        if self._squeezed:
            for squeezed in target.lanes.values():
                if squeezed in self._squeezed:
                    self.note(squeezed)
        if tenant.name in self._crowding and self._places.allowance(tenant) > 0:
            del self._crowding[tenant.name]
            self._note_party(tenant)
        if self._stopped:
            for each in (target, lane.group, lane.tenant):
                if each.name in self._stopped:
                    self._let_go_on(each)

    def forget(self, name: str) -> None:
        """Somebody has nothing under way any more, and nothing that waits."""
        self._stopped.pop(name, None)
        self._crowding.pop(name, None)

    def next_token(self) -> float | None:
        """After how many seconds somebody whose limits said no can be served, if ever."""
        waits = (
            each.throttle.wait(each.under_way)
            for each in self._stopped.values()
            if each.throttle is not None
        )
        return min((wait for wait in waits if wait is not None), default=None)

    def _serve(
        self, turns: dict[str, Party | Lane], limit: int, begun: list[tuple[str, Timer]]
    ) -> None:
        """Give everybody in turn their share; who is served alone takes it all at once."""
        until = len(begun) + limit
        while turns and len(begun) < until:
            share = -(-(until - len(begun)) // len(turns))
            for name in list(turns):
                most = min(share, until - len(begun))
                if most <= 0 or self._places.free <= 0:
                    return
                each = turns.pop(name)
                if isinstance(each, Lane):
                    could_take_more = self._serve_lane(each, most, begun)
                else:
                    could_take_more = self._serve_party(each, most, begun)
                if could_take_more:
                    turns[name] = each  # behind the others

    def _serve_party(self, party: Party, most: int, begun: list[tuple[str, Timer]]) -> bool:
        """Serve a tenant or a group; tells whether it could take more."""
        self._serve(party.turns, min(most, self._places.allowance(party)), begun)
        if party.turns and self._places.allowance(party) <= 0:
            self._stop(party)
        return bool(party.turns) and not self._stands_aside(party)

    def _serve_lane(self, lane: Lane, most: int, begun: list[tuple[str, Timer]]) -> bool:
        """Serve one lane; tells whether it could take more."""
        target = lane.target
        if target.looked_at != self._pass:
            target.looked_at = self._pass
            self._places.look_ahead(target)
        room = self._places.room(target)
        if target.throttle is not None:
            room = min(room, self._places.tokens(target))
        count = max(min(most, room, len(lane.waiting)), 0)
        for _ in range(count):
            if self._places.free <= 0:
                return True  # large ones have filled the node before their number did
            if not lane.waiting:
                break  # some of them had changed as they waited
            timer = self._queues.take(lane)
            self._places.occupy(lane, timer)
            begun.append((target.name, timer))
        self._queues.call_back(lane)
        if count < room and lane.waiting:
            return True
        self.note(lane)
        return False

    def _note_party(self, party: Party) -> None:
        """Let a tenant or a group have its turn, unless it must stand aside."""
        if not party.turns or self._stands_aside(party):
            return
        if party.parent is None:
            self._tenants[party.name] = party
        else:
            party.parent.turns[party.name] = party
            self._note_party(party.parent)

    def _stands_aside(self, party: Party) -> bool:
        return party.name in self._stopped or party.name in self._crowding

    def _stop(self, party: Party) -> None:
        """Let a tenant or a group stand aside until it may have more under way."""
        if self._places.tokens(party) <= 0:
            self._stopped[party.name] = party
        else:
            self._crowding[party.name] = party
        turns = self._tenants if party.parent is None else party.parent.turns
        turns.pop(party.name, None)

    def _let_go_on(self, stopped: Party | Target) -> None:
        """Let somebody have turns again, if their limits allow it now."""
        if self._places.tokens(stopped) <= 0:
            return
        del self._stopped[stopped.name]
        if isinstance(stopped, Party):
            self._note_party(stopped)
        else:
            for lane in list(stopped.blocked):
                self.note(lane)

    def _find(self) -> bool:
        """Look whether those can be served who had to leave the last places to others."""
        for lane in list(self._squeezed):
            self.note(lane)
        for party in list(self._crowding.values()):
            if self._places.allowance(party) > 0:
                del self._crowding[party.name]
                self._note_party(party)
        return bool(self._tenants)
