"""Members: who is alive, and which shards this node looks after.

Every node keeps one record and writes it anew with each heartbeat. The live nodes share the shards
(``shards.py``). A node that comes watches the records of the others first (``sightings.py``) and
takes its shards when it knows who is alive; only then do the others let go of them. A node that
leaves takes its record away, and has another one, which none of them looks at, until it has ended.

While they disagree for a moment, two nodes look at the same shard. That wastes work, and never
more: who starts a timer is decided by its row. What may be sent under a claim, while others may
take its node for dead, is decided by the lease (``lease.py``).
"""

import logging
import math
import os
import socket
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress

import msgspec

from duetime import __version__, ids
from duetime.clock import Clock, Millis
from duetime.engine.bulletin import Bulletin
from duetime.engine.holds import Holds
from duetime.engine.lease import Lease
from duetime.engine.shards import Rendezvous
from duetime.engine.sightings import PATIENCE, Sighting, Sightings
from duetime.engine.throttles import Throttles
from duetime.errors import StoreError
from duetime.nodes import LEAVING, NODE_KIND, NodeRecord, NodeState, NodeStatus, read_record
from duetime.stores import News, Record, Store
from duetime.tenancy.meter import Meter

log = logging.getLogger("duetime.engine")

BEATS = 5  # heartbeats in the time after which a node may be taken for dead
LONGEST_BEAT: Millis = 2_000  # whoever comes waits for one
FORGOTTEN_AFTER: Millis = 86_400_000  # a node that was leaving then has crashed at it
LINGER_EVERY = 0.2  # seconds, while a node is leaving
LONGEST_STAY = 3_600.0  # seconds; whoever leaves wakes it
LOOKS = 5  # a newcomer looks so many times in a heartbeat whether the others have moved


async def always_admitted() -> None:
    """Let a node work on, however long it was away."""


class Members:
    """This node's view of who is there.

    ``readmit`` is asked when it comes back after others may have taken it for dead; it raises if
    the node may do nothing more. ``has_ended`` tells of a record whether its node is known to have
    ended; a newcomer does not wait for such a one.
    """

    def __init__(
        self,
        node: str,
        store: Store,
        clock: Clock,
        *,
        ttl: Millis = 10_000,
        behind: Callable[[], Millis] = lambda: 0,
        on_death: Callable[[dict[str, Millis]], None] = lambda _: None,
        readmit: Callable[[], Awaitable[None]] = always_admitted,
        has_ended: Callable[[NodeRecord], bool] = lambda _: False,
        holds: Holds | None = None,
        meter: Meter | None = None,
        bulletin: Bulletin | None = None,
        throttles: Throttles | None = None,
    ) -> None:
        self._node = node
        self._store = store
        self._clock = clock
        self._about = NodeRecord(
            ttl=ttl,
            beat_every=max(min(ttl // BEATS, LONGEST_BEAT), 1),
            is_joining=True,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            started_at=clock.now(),
        )
        self._behind = behind
        self._on_death = on_death
        self._readmit = readmit
        self._holds = holds or Holds()
        self._meter = meter
        self._bulletin = bulletin
        self._throttles = throttles or Throttles(node, clock)
        self._own: Record | None = None
        self._leaving: Record | None = None
        self._version = 0
        self._sightings = Sightings(self.beat_every, has_ended)
        self._rendezvous = Rendezvous()
        self._others: dict[str, NodeRecord] = {}
        self._has_joined = False
        self._beaten_at = clock.monotonic()
        self.looked_at = -math.inf  # when it was asked for what the shards are shared by
        self._has_news = True  # that the others have not been told
        self.is_leaving = False  # it writes its record no more
        self.has_left = False  # its record is gone
        self.lease = Lease()
        self.shards: Collection[int] = ()

    @property
    def beat_every(self) -> float:
        """How many seconds lie between two heartbeats."""
        return self._about.beat_every / 1000

    @property
    def is_writing(self) -> bool:
        """Tell whether the last heartbeats were written."""
        return self._own is not None and self.lease.holds(self._clock.monotonic())

    @property
    def is_alone(self) -> bool:
        """Tell whether no other node that is known to be alive looks after shards."""
        return not self._others

    @property
    def has_rivals(self) -> bool:
        """Tell whether another node may look after shards, as far as is known for sure."""
        return self._sightings.has_rivals()

    @property
    def has_passed_over(self) -> bool:
        """Tell whether a node is taken for gone that may still act as if it were not."""
        return self._sightings.has_passed_over(self._clock.monotonic())

    @property
    def ttl(self) -> float:
        """For how many seconds this node may act upon what it saw last."""
        return self._about.ttl / 1000

    @property
    def longest_ttl(self) -> float:
        """The same of all nodes that are known: the longest."""
        return max(self._about.ttl, self._sightings.longest_ttl()) / 1000

    def is_mine(self, id_: str) -> bool:
        """Tell whether this node looks after a timer, and will do so for a while."""
        return self.is_alone or (ids.shard_of(id_) in self.shards and not self.is_leaving)

    @property
    def handover_time(self) -> float:
        """After how many seconds the others have noticed that this node is gone, if there are any.

        They may have heard of it at once, but news can get lost.
        """
        return PATIENCE * max((node.beat_every for node in self._others.values()), default=0) / 1000

    async def step(self) -> float:
        """Look for signs of life, work out the shards, and show one.

        The rules are read first: a node that cannot read them shows none, and ends with its lease.
        """
        await self._holds.look()
        asked_at = self._clock.monotonic()
        records = await self._store.records(NODE_KIND)
        seen_at = self._clock.monotonic()
        others = [record for record in records if record.name != self._node]
        has_died = self._sightings.look_at(others, asked_at=asked_at, seen_at=seen_at)
        self._share(seen_at)
        self.looked_at = asked_at
        if has_died:
            dead = self._sightings.dead()
            self._on_death({name: sighting.about.ttl for name, sighting in dead.items()})
        if self._meter is not None:
            self._meter.hear(self._sightings.present(seen_at))
        if self._bulletin is not None:
            self._bulletin.hear(self._sightings.told(seen_at))
        self._throttles.hear(self._sightings.present(seen_at))
        await self._beat()
        if self._has_news:
            await self._store.announce(News(is_about_nodes=True))
            self._has_news = False
        for record in others:
            if self._sightings.is_long_dead(record.name, seen_at):
                await self._store.put_record(record, None)
        return self.beat_every if self._has_joined else self.beat_every / LOOKS

    def nodes(self) -> list[NodeStatus]:
        """Every node that had a record at the last look, and this one, by name.

        Whoever asks for it often must not get in the way of heartbeats: the store is not asked.
        """
        now = self._clock.monotonic()
        others = [_seen(name, sighting, now) for name, sighting in self._sightings.items()]
        state: NodeState = "alive" if self._has_joined else "joining"
        this = NodeStatus(
            name=self._node,
            is_this=True,
            state="leaving" if self.is_leaving else state,
            last_seen_ms=round(1000 * (now - self._beaten_at)),
            about=self._about,
        )
        return sorted([*others, this], key=lambda node: node.name)

    def shares(self) -> dict[str, list[int]]:
        """Which shards fall to whom, as this node sees it."""
        shares: dict[str, list[int]] = {}
        this = [self._node] if self._has_joined else []
        for shard, owner in enumerate(self._rendezvous.owners([*self._others, *this])):
            shares.setdefault(owner, []).append(shard)
        return shares

    async def is_nobody_there(self) -> bool:
        """Tell whether this node has left, and none has come: all records are of the dead."""
        return all(self._is_dead(record) for record in await self._store.records(NODE_KIND))

    async def still_dead(self) -> set[str]:
        """The dead whose records stand as they did when they were found so."""
        records = await self._store.records(NODE_KIND)
        return {record.name for record in records if self._is_dead(record)}

    def _is_dead(self, record: Record) -> bool:
        found = self._sightings.dead().get(record.name)
        return found is not None and found.version == record.version

    async def leave(self, drain_for: float = 0.0) -> None:
        """Take this node's record away, so that the others need not wait for it.

        What it has claimed stays its own: nobody takes a node for dead that has left. Whoever
        must know that it still works finds a record of another kind, until it has left no trace.
        """
        self.is_leaving = True
        about = msgspec.structs.replace(
            self._about,
            ttl=self._about.ttl + round(1000 * drain_for),
            left_at=self._clock.now(),
            rules=self._holds.obeyed(),
            makes_by=self._holds.makes_by(),
            sends_by=self._holds.sends_by(),
        )
        data = msgspec.json.encode(about)
        leaving = Record(kind=LEAVING, name=self._node, version=1, data=data)
        await self._store.put_record(None, leaving)  # it may be there, if this is not the first try
        self._leaving = leaving
        await self._take_record_away()

    async def linger(self) -> float:
        """Go on to obey the rules, and to show it, until all that is under way has ended."""
        if self._leaving is None:
            return LONGEST_STAY
        await self._holds.look()
        before = read_record(self._leaving.data)
        about = msgspec.structs.replace(
            before,
            rules=self._holds.obeyed(),
            makes_by=self._holds.makes_by(),
            sends_by=self._holds.sends_by(),
        )
        if about != before:
            data = msgspec.json.encode(about)
            new = msgspec.structs.replace(
                self._leaving, version=self._leaving.version + 1, data=data
            )
            if await self._store.put_record(self._leaving, new):
                self._leaving = new
        return LINGER_EVERY

    async def leave_no_trace(self) -> None:
        """Take away all that shows that this node was there: it does nothing more.

        It does so for nodes, too, that crashed when they were leaving.
        """
        self.is_leaving = True
        if not self.has_left:
            await self._take_record_away()
        forgotten = self._clock.now() - FORGOTTEN_AFTER
        for record in await self._store.records(LEAVING):
            if record.name == self._node or read_record(record.data).left_at < forgotten:
                await self._store.put_record(record, None)

    async def _take_record_away(self) -> None:
        if self._own is None or not await self._store.put_record(self._own, None):
            own = await self._stored()
            if own is not None and not await self._store.put_record(own, None):
                return
        self._own = None
        self.has_left = True
        if self.lease.holds(self._clock.monotonic()):
            self.lease.until = math.inf
        with suppress(StoreError):  # news are hints
            await self._store.announce(News(is_about_nodes=True))

    def _share(self, now: float) -> None:
        """Work out the shards anew if somebody has come or gone."""
        has_joined = self._has_joined or self._sightings.is_settled(now)
        others = self._sightings.alive(now)
        is_changed = others.keys() != self._others.keys() or has_joined != self._has_joined
        self._others = others
        if not is_changed or not has_joined:
            return
        self._has_news = self._has_news or not self._has_joined
        self._has_joined = True
        self.shards = self._rendezvous.shards_of(self._node, others.keys())
        log.info("nodes alive: %d; this one has %d shards", len(others) + 1, len(self.shards))

    async def _beat(self) -> None:
        """Write the record anew, and count the lease from before that was asked for."""
        if self.is_leaving:
            return
        asked_at = self._clock.monotonic()
        self.lease.until = min(self.lease.until, asked_at + self._about.ttl / 1000)
        record = self._next_record()
        if not await self._store.put_record(self._own, record):
            # A write whose answer was lost has landed, or another node took us for dead.
            self._own = await self._stored()
            asked_at = self._clock.monotonic()
            record = self._next_record()
            if not await self._store.put_record(self._own, record):
                return
        self._own = record
        self._beaten_at = self._clock.monotonic()
        if self.lease.holds(self._beaten_at):
            self.lease.until = asked_at + self._about.ttl / 1000
        else:  # nobody knows what the others have done meanwhile
            await self._readmit()
            self.lease = Lease(asked_at + self._about.ttl / 1000)

    def _next_record(self) -> Record:
        self._about = msgspec.structs.replace(
            self._about,
            is_joining=not self._has_joined,
            shards=len(self.shards),
            behind_ms=self._behind(),
            rules=self._holds.obeyed(),
            makes_by=self._holds.makes_by(),
            sends_by=self._holds.sends_by(),
            demand={} if self._meter is None else self._meter.demand(),
            growth={} if self._meter is None else self._meter.growth(),
            targets={} if self._bulletin is None else self._bulletin.reports(),
            callbacks=self._throttles.demand(),
        )
        self._version += 1  # never the same twice: only a change is a sign of life
        data = msgspec.json.encode(self._about)
        return Record(kind=NODE_KIND, name=self._node, version=self._version, data=data)

    async def _stored(self) -> Record | None:
        records = await self._store.records(NODE_KIND)
        return next((record for record in records if record.name == self._node), None)


def _seen(name: str, sighting: Sighting, now: float) -> NodeStatus:
    """Another node, as it was seen last."""
    state: NodeState = "joining" if sighting.about.is_joining else "alive"
    if not sighting.is_alive(now):
        state = "dead" if sighting.is_dead else "unknown"
    return NodeStatus(
        name=name,
        is_this=False,
        state=state,
        last_seen_ms=round(1000 * (now - sighting.since)),
        about=sighting.about,
    )
