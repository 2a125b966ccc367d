"""Obedience: to know that every node goes by a change of the rules.

A node writes the revision that it goes by into its record with each heartbeat. One that does not
get there loses its lease after a while, and starts nothing more.
"""

from duetime.clock import Clock, sleep
from duetime.nodes import NODE_KIND, read_record
from duetime.stores import Store

LOOK_EVERY = 0.05  # seconds
LONGEST = 30.0  # seconds; a node of an older version never gets there


async def until_all_obey(store: Store, clock: Clock, revision: int) -> bool:
    """Wait until no node can act by older rules; False if that takes too long."""
    began_at = clock.monotonic()
    stands: dict[str, tuple[int, float]] = {}  # which version each record has, and since when
    while True:
        asked_at = clock.monotonic()
        records = await store.records(NODE_KIND)
        seen_at = clock.monotonic()
        is_awaited = False
        for record in records:
            about = read_record(record.data)
            if about.rules >= revision:
                continue
            version, since = stands.get(record.name, (-1, 0.0))
            if version != record.version:
                stands[record.name] = record.version, seen_at
            elif asked_at - since >= about.ttl / 1000:
                continue  # its lease has ended
            is_awaited = True
        if not is_awaited:
            return True
        if asked_at - began_at >= LONGEST:
            return False
        await sleep(clock, LOOK_EVERY)
