"""Obedience: to know that every node goes by a change of the rules.

A node writes the revision that it goes by into its record with each heartbeat, and into that which
it has while it leaves. One that does not get there loses its lease after a while, and starts
nothing more. It writes two: that of the groups, by which its engine starts timers, and that of the
tenants, by which its API makes them.
"""

from collections.abc import Callable

from duetime.clock import Clock, sleep
from duetime.nodes import LEAVING, NODE_KIND, NodeRecord, read_record
from duetime.stores import Record, Store

LOOK_EVERY = 0.05  # seconds
LONGEST = 30.0  # seconds; a node of an older version never gets there
CRASHED_AFTER = 60_000  # milliseconds after a node that was leaving should have been gone


async def until_all_obey(store: Store, clock: Clock, revision: int) -> bool:
    """Wait until no node can start timers by older rules; False if that takes too long."""
    return await _until(store, clock, _Watch(lambda about: about.rules >= revision))


async def until_all_make_by(
    store: Store, clock: Clock, revision: int, longest: float = LONGEST
) -> bool:
    """Wait until no node makes anything by older rules of tenants; False if it takes too long."""
    return await _until(store, clock, _Watch(lambda about: about.makes_by >= revision), longest)


async def _until(store: Store, clock: Clock, watch: "_Watch", longest: float = LONGEST) -> bool:
    began_at = clock.monotonic()
    while True:
        asked_at = clock.monotonic()
        nodes = await _nodes(store, clock)
        if not watch.is_any_awaited(nodes, asked_at, clock.monotonic()):
            return True
        if asked_at - began_at >= longest:
            return False
        await sleep(clock, LOOK_EVERY)


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


class _Watch:
    """What was seen of the nodes that do not obey yet."""

    def __init__(self, obeys: Callable[[NodeRecord], bool]) -> None:
        self._obeys = obeys
        self._stands: dict[tuple[str, str], tuple[int, float]] = {}  # which version, since when

    def is_any_awaited(self, records: list[Record], asked_at: float, seen_at: float) -> bool:
        awaited = [self._is_awaited(record, asked_at, seen_at) for record in records]
        return any(awaited)

    def _is_awaited(self, record: Record, asked_at: float, seen_at: float) -> bool:
        about = read_record(record.data)
        if self._obeys(about):
            return False
        place = record.kind, record.name
        version, since = self._stands.get(place, (-1, 0.0))
        if version != record.version:
            self._stands[place] = record.version, seen_at
            return True
        return asked_at - since < about.ttl / 1000  # then its lease has ended


def _has_crashed(about: NodeRecord, now: int) -> bool:
    """Tell whether a node crashed when it was leaving, and left its record behind."""
    return about.left_at + about.ttl + CRASHED_AFTER < now
