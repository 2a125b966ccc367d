"""A lane: the writes of one shard by this process, one conditional batch after the other.

Servers agree on one batch of a partition at a time, so two at once would only be in each other's
way. What comes while one is under way shares the next.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple

from duetime.errors import StoreUnavailable, Unanswered, not_known
from duetime.stores import Due, Waking
from duetime.stores.cassandra import statements as cql
from duetime.stores.cassandra.errors import ENGINE_ERRORS, may_have_begun, meaning
from duetime.stores.cassandra.fence import after, settle
from duetime.stores.cassandra.pieces import Found, Ground, Piece, Shelving
from duetime.stores.cassandra.rows import DUE, KEY, TRUTH
from duetime.stores.cassandra.session import Session, Step
from duetime.stores.cassandra.shards import Shards

HEAVIEST = 512 * 1024  # bytes in a batch, unless one piece alone is more
LONGEST = 300  # pieces in a batch
# A message to Cassandra has at most 16 MiB (native_transport_max_frame_size), and so has a write
# (half of commitlog_segment_size).
LARGEST = 15 * 1024 * 1024

# How often a batch is tried that others get ahead of all the time.
_MOST_TRIES = 20


class Order:
    """Pieces that somebody waits for: whether each was written, and what went wrong."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.error: StoreUnavailable | None = None
        self.done: asyncio.Future[list[bool]] = asyncio.get_running_loop().create_future()
        self._answers = [False] * len(pieces)
        self._left = len(pieces)

    def decide(self, place: int, *, is_written: bool) -> None:
        """One piece is over. Who waits is told when all are, for until then some may be written."""
        self._answers[place] = is_written
        self._left -= 1
        if self._left or self.done.done():
            return
        if self.error is None:
            self.done.set_result(self._answers)
        else:
            self.done.set_exception(self.error)
            self.done.exception()  # perhaps nobody waits any more

    def fail(self, place: int, error: StoreUnavailable) -> None:
        """One piece failed, and nobody knows how it ended if the error says so."""
        if self.error is None or isinstance(error, Unanswered):
            self.error = error
        self.decide(place, is_written=False)


class Capacity(NamedTuple):
    """How many batches of all lanes may be under way, and how many of them heavy ones."""

    any: asyncio.Semaphore
    heavy: asyncio.Semaphore


_Entry = tuple[Order, int]  # an order, and which of its pieces


class Lane:
    """Writes to one shard."""

    def __init__(self, shard: int, session: Session, shards: Shards, capacity: Capacity) -> None:
        self.ground = Ground(shard)
        self.removed = 0  # lines of what is due, since the floor was raised
        self._session = session
        self._shards = shards
        self._capacity = capacity
        self._is_known = False
        self._shelving: Order | None = None
        self._waiting: deque[_Entry | Callable[[], Awaitable[None]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def write(self, pieces: Sequence[Piece]) -> list[bool]:
        """Write pieces in this order; tells which did not lose."""
        for piece in pieces:
            if piece.weight > LARGEST:
                raise StoreUnavailable(
                    f"Cassandra: a timer of {piece.weight:,} bytes is more than the {LARGEST:,} "
                    "that one write may have; nothing of it was written"
                )
        order = Order(pieces)
        self._put(order)
        # Whoever stops waiting does not stop what is under way.
        return await asyncio.shield(order.done)

    def shelve(self, lines: Sequence[Waking]) -> None:
        """Move lines below the floor to the late ones, some time soon; but some after the other."""
        if self._shelving is None or self._shelving.done.done():
            self._shelving = Order([Shelving(line) for line in lines[:LONGEST]])
            self._put(self._shelving)

    def raise_floor(self, floor: Due) -> None:
        """Put nothing below it among what is due any more, from some time soon on."""
        self._waiting.append(lambda: self._raise(floor))
        self._go_on()

    async def idle(self) -> None:
        """Return when nothing is under way."""
        while self._task is not None:
            await asyncio.wait([self._task])

    # One batch after the other ----------------------------------------------------------------

    def _put(self, order: Order) -> None:
        self._waiting.extend((order, place) for place in range(len(order.pieces)))
        self._go_on()

    def _go_on(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._waiting:
                async with self._capacity.any:
                    if callable(first := self._waiting[0]):
                        self._waiting.popleft()
                        with suppress(*ENGINE_ERRORS):  # it will be tried again
                            await first()
                        continue
                    entries = self._gather()
                    weight = sum(order.pieces[place].weight for order, place in entries)
                    async with self._capacity.heavy if weight > HEAVIEST else nullcontext():
                        await self._write(entries)
        finally:
            self._task = None

    def _gather(self) -> list[_Entry]:
        """The next pieces that one batch can hold; none that touch the same."""
        entries: list[_Entry] = []
        touched: set[str] = set()
        weight = 0
        while self._waiting and len(entries) < LONGEST:
            entry = self._waiting[0]
            if callable(entry):
                break
            order, place = entry
            if order.error is not None:  # what it began has failed: it begins nothing more
                order.decide(place, is_written=False)
                self._waiting.popleft()
                continue
            piece = order.pieces[place]
            weight += piece.weight
            if entries and (weight > HEAVIEST or not touched.isdisjoint(piece.touches)):
                break
            touched.update(piece.touches)
            entries.append(entry)
            self._waiting.popleft()
        return entries

    async def _write(self, entries: list[_Entry]) -> None:
        """Write one batch, again without those that lost, until all is decided."""
        try:
            for _ in range(_MOST_TRIES):
                if not entries:
                    return
                await self._know_ground()
                found = await self._try([order.pieces[place] for order, place in entries])
                left = []
                for order, place in entries:
                    if found is None or order.pieces[place].has_lost(found):
                        order.decide(place, is_written=found is None)
                    else:
                        left.append((order, place))
                entries = left
            busy = "Cassandra: others write to the same shard all the time"
            _fail(entries, StoreUnavailable(busy))
        except StoreUnavailable as error:
            _fail(entries, error)
        except Exception as error:  # noqa: BLE001 - whoever waits must be told
            failure = StoreUnavailable(f"Cassandra: {meaning(error)}")
            failure.__cause__ = error
            _fail(entries, failure)

    async def _try(self, pieces: Sequence[Piece]) -> Found | None:
        """Try to write them all; if that fails, what was found instead."""
        ground = self.ground
        epoch = ground.epoch or 1
        steps: list[Step] = [(cql.FENCE, (epoch, ground.shard, ground.epoch))]
        for piece in pieces:
            steps += piece.steps(ground)
        try:
            rows = await self._session.run_batch(steps)
        except Exception as error:  # also what nobody knows that the driver throws
            if not may_have_begun(error):
                raise
            self._is_known = False
            if await settle(self._session, ground.shard, ground.epoch):
                raise StoreUnavailable(f"Cassandra: {meaning(error)}") from error
            raise Unanswered(not_known(meaning(error))) from error
        if rows[0]["[applied]"]:
            self.ground = self.ground._replace(epoch=epoch)
            self.removed += _removed(steps)
            return None
        if any(row.get("epoch") != ground.epoch for row in rows) or len(rows[0]) == 1:
            self._is_known = False
        return Found(
            _named(rows, TRUTH, "version"),
            _named(rows, KEY, "timer"),
        )

    # The ground -------------------------------------------------------------------------------

    async def _know_ground(self) -> None:
        """Know the epoch and the floor, as they were at some time."""
        shard = self.ground.shard
        if self._is_known:
            self.ground = self.ground._replace(head=self._shards.head(shard))
            return
        is_new = await self._shards.open(shard)
        rows = [] if is_new else await self._session.run(cql.GROUND, (shard,))
        epoch, at, id_ = rows[0][1:] if rows else (None, None, None)
        floor = None if at is None else Due(at, id_)
        self.ground = Ground(shard, epoch, floor, self._shards.head(shard))
        self._is_known = True

    async def _raise(self, floor: Due) -> None:
        await self._know_ground()
        ground = self.ground
        if ground.floor is not None and ground.floor >= floor:
            return
        await self._shards.mark(ground.shard)
        self._is_known = False  # until it is read again, whatever becomes of this
        epoch = after(ground.epoch)
        await self._session.run(cql.RAISE, (epoch, *floor, ground.shard, ground.epoch))
        self.removed = 0
        await self._know_ground()


def _named(rows: Sequence[dict[str, Any]], kind: int, column: str) -> dict[str, Any]:
    """By id, what the rows of a kind have in a column. ScyllaDB answers with absent rows too."""
    found = ((row["id"], row.get(column)) for row in rows if row.get("kind") == kind)
    return {id_: value for id_, value in found if value is not None}


def _removed(steps: Sequence[Step]) -> int:
    """How many lines of what is due a batch has removed, or tried to."""
    return sum(statement is cql.DELETE and values[1] == DUE for statement, values in steps)


def _fail(entries: Sequence[_Entry], error: StoreUnavailable) -> None:
    for order, place in entries:
        order.fail(place, error)
