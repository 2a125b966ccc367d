"""Obedience: to know that every node goes by a change of the rules.

A node writes the revision that it goes by into its record with each heartbeat, and into that which
it has while it leaves. One that does not get there loses its lease after a while, and starts
nothing more. It writes three: that of the groups, by which its engine starts timers, that of the
targets, by which it sends them, and that of the tenants, by which its API makes them.
"""

from collections.abc import Callable

from duetime.clock import Clock, sleep
from duetime.nodes import LEAVING, NODE_KIND, NodeRecord, read_record
from duetime.stores import Record, Store

LOOK_EVERY = 0.05  # seconds
LONGEST = 30.0  # seconds; a node of an older version never gets there
CRASHED_AFTER = 60_000  # milliseconds after a node that was leaving should have been gone


class Watch:
    """Waits for the nodes, within one time for all that it is asked for.

    One that has died is waited for once: it stands still for whatever comes after that, too.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._give_up_at = clock.monotonic() + LONGEST
        # Of those that did not obey when they were seen, which version, since when.
        self._stands: dict[tuple[str, str], tuple[int, float]] = {}

    async def until_all_obey(self, revision: int) -> bool:
        """Wait until no node can start timers by older rules; False if that takes too long."""
        return await self._until(lambda about: about.rules >= revision)

    async def until_all_make_by(self, revision: int) -> bool:
        """Wait until no node makes anything by older rules of tenants; False: it takes too long."""
        return await self._until(lambda about: about.makes_by >= revision)

    async def until_all_send_by(self, revision: int) -> bool:
        """Wait until no node sends anything by older rules of targets; False: it takes too long."""
        return await self._until(lambda about: about.sends_by >= revision)

    async def _until(self, obeys: Callable[[NodeRecord], bool]) -> bool:
        while True:
            asked_at = self._clock.monotonic()
            nodes = await _nodes(self._store, self._clock)
            seen_at = self._clock.monotonic()
            awaited = [self._is_awaited(each, obeys, asked_at, seen_at) for each in nodes]
            if not any(awaited):
                return True
            if asked_at >= self._give_up_at:
                return False
            await sleep(self._clock, LOOK_EVERY)

    def _is_awaited(
        self, record: Record, obeys: Callable[[NodeRecord], bool], asked_at: float, seen_at: float
    ) -> bool:
        about = read_record(record.data)
        if obeys(about):
            return False
        place = record.kind, record.name
        version, since = self._stands.get(place, (-1, 0.0))
        if version != record.version:
            self._stands[place] = record.version, seen_at
            return True
        return asked_at - since < about.ttl / 1000  # then its lease has ended


async def do_all_obey(store: Store, clock: Clock, revision: int) -> bool:
    """Tell whether every node is seen to obey; one that has died is not, until it is forgotten."""
    nodes = await _nodes(store, clock)
    return all(read_record(record.data).rules >= revision for record in nodes)


async def do_all_make_by(store: Store, clock: Clock, revision: int) -> bool:
    """Tell whether every node is seen to make nothing by older rules of tenants, likewise."""
    nodes = await _nodes(store, clock)
    return all(read_record(record.data).makes_by >= revision for record in nodes)


async def _nodes(store: Store, clock: Clock) -> list[Record]:
    nodes = await store.records(NODE_KIND)
    # After the others: who leaves meanwhile is found among these.
    leaving = [
        record
        for record in await store.records(LEAVING)
        if not _has_crashed(read_record(record.data), clock.now())
    ]
    return [*nodes, *leaving]


def _has_crashed(about: NodeRecord, now: int) -> bool:
    """Tell whether a node crashed when it was leaving, and left its record behind."""
    return about.left_at + about.ttl + CRASHED_AFTER < now
