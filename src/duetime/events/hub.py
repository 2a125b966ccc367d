"""The hub of a node: reads the feed once for all who listen here, and only while somebody does."""

import asyncio
import logging
from contextlib import suppress

from duetime.clock import Clock, sleep
from duetime.errors import NatsError, StoreError, StoreUnavailable, TooManyRequests, Unavailable
from duetime.events.feed import Feed, Tail, Told
from duetime.events.reader import PAUSE, Reader, stopping
from duetime.events.ring import Ring, weight_of
from duetime.events.wish import Wish

MOST_READERS = 1_000
MOST_OF_A_TENANT = 100
RETRY_AFTER = 5.0  # seconds, for those who find no place

MOST_EVENTS = 5_000  # of one tenant, and ...
MOST_BYTES = 8 << 20  # ... so many bytes of them ...
MOST_BYTES_OF_ALL = 64 << 20  # ... as long as those of all tenants have no more than this
PORTION = 500  # events that are handed out before readers are looked after, and ...
PORTION_BYTES = 1 << 20  # ... so many bytes of them
GRACE = 0.5  # seconds that a reader is waited for who would be left behind by a burst
CATCHING_UP = 4  # readers that read the feed by themselves at the same time

# Seconds that the hub goes on when the last reader of a tenant has left. Most are back soon, and
# then go on exactly where they were.
LINGER = 30.0

log = logging.getLogger("duetime.events")


class Hub:
    """Hands the events of a feed to those who listen on this node."""

    def __init__(self, feed: Feed, clock: Clock) -> None:
        self.feed = feed
        self.clock = clock
        self.closing = asyncio.Event()
        self.position = ""  # how far all has been handed out
        self.turns = asyncio.Semaphore(CATCHING_UP)
        self.got_on = asyncio.Event()  # set whenever a reader has heard something
        self._readers: set[Reader] = set()
        self._rings: dict[str, Ring] = {}
        self._tail: Tail | None = None
        self._reading: asyncio.Task[None] | None = None
        self._handing_out = asyncio.Lock()
        self._complaint = ""  # what was logged last of those who could not begin

    @property
    def is_closed(self) -> bool:
        return self.closing.is_set()

    async def listen(self, wish: Wish, after: str | None, *, follow: bool = True) -> Reader:
        """Begin to listen, behind a position or with what is new; whoever does has to close.

        Raises InvalidRequest if the position is none, or too old; TooManyRequests if there are too
        many readers.
        """
        self._check_room(wish.tenant)
        reader = Reader(self, wish, follow=follow)
        self._readers.add(reader)
        try:
            await reader.open(after)
        except BaseException as error:
            await reader.close()
            if isinstance(error, NatsError | StoreUnavailable):
                raise self.unreadable(error) from error
            raise
        self._complaint = ""
        return reader

    def unreadable(self, error: NatsError | StoreError) -> Unavailable:
        """What to tell a reader when nothing can be read; the log has the reason, once."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            log.warning("events cannot be read: %s", error)
        return Unavailable("the events cannot be read just now; the log of the node says why")

    async def ring_of(self, tenant: str) -> Ring:
        """The ring of a tenant, which has a reader more now, that must leave it."""
        async with self._handing_out:  # in the midst of that, the position is not yet so far
            tail = self._tail or await self.feed.tail(None)
            if self.is_closed:
                await tail.close()
                raise stopping()
            if self._tail is None:
                self._tail, self.position = tail, tail.position
                self._reading = asyncio.create_task(self._read(tail), name="events")
            ring = self._rings.get(tenant)
            if ring is None:
                ring = Ring(self.position, most=MOST_EVENTS, most_bytes=MOST_BYTES)
                self._rings[tenant] = ring
            ring.readers += 1
            return ring

    def leave(self, ring: Ring) -> None:
        """A reader has left the ring of its tenant."""
        ring.readers -= 1
        ring.left_at = self.clock.monotonic()

    def forget(self, reader: Reader) -> None:
        """A reader has ended."""
        self._readers.discard(reader)

    async def close(self) -> None:
        """End all readers, each with a last word, and read no more. Idempotent."""
        self.closing.set()
        for reader in self._readers:
            reader.wake()
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading

    def _check_room(self, tenant: str) -> None:
        if self.is_closed:
            raise stopping()
        if len(self._readers) >= MOST_READERS:
            raise TooManyRequests("too many listen to events on this node", RETRY_AFTER)
        if sum(reader.tenant == tenant for reader in self._readers) >= MOST_OF_A_TENANT:
            raise TooManyRequests(
                f"quota: {MOST_OF_A_TENANT} listen to events of this tenant already", RETRY_AFTER
            )

    async def _read(self, tail: Tail) -> None:
        try:
            is_told = False
            while self._is_needed():
                try:
                    events = await tail.read()
                    async with self._handing_out:
                        await self._hand_out(events)
                        self.position = tail.position
                    is_told = False
                except Exception as error:
                    is_known = isinstance(error, StoreError | NatsError)
                    if not is_told or not is_known:
                        log.warning(
                            "events cannot be read, and are tried again: %s",
                            error,
                            exc_info=None if is_known else error,
                        )
                    is_told = True
                    await sleep(self.clock, PAUSE)
        finally:
            self._tail = self._reading = None
            self._rings.clear()
            await tail.close()

    async def _hand_out(self, events: list[Told]) -> None:
        """Put events into rings, bit by bit: a burst must not leave those behind who keep up."""
        most_bytes = min(MOST_BYTES, MOST_BYTES_OF_ALL // max(len(self._rings), 1))
        for ring in self._rings.values():
            ring.most_bytes = most_bytes
        news: set[Ring] = set()
        count = weight = 0
        for told in events:
            own = self._rings.get(told.tenant)
            if own is None:
                continue
            own.put(told)
            news.add(own)
            count += 1
            weight += weight_of(told)
            if count >= PORTION or weight >= PORTION_BYTES:
                await self._tell(news)
                count = weight = 0
        await self._tell(news)

    async def _tell(self, news: set[Ring]) -> None:
        """Wake the readers of these rings, and give those a moment who need one."""
        for ring in news:
            ring.tell()
        news.clear()
        until = self.clock.monotonic() + GRACE
        while pressed := [reader for reader in self._readers if reader.is_pressed]:
            self.got_on.clear()
            since = self.clock.monotonic()
            if until <= since or not await self.clock.wait(self.got_on, until - since):
                for reader in pressed:
                    reader.give_up()
            for reader in pressed:
                reader.was_waited_for(self.clock.monotonic() - since)

    def _is_needed(self) -> bool:
        """Tell whether anybody listens, or might be back soon."""
        long_ago = self.clock.monotonic() - LINGER
        left = [
            tenant
            for tenant, ring in self._rings.items()
            if not ring.readers and ring.left_at <= long_ago
        ]
        for tenant in left:
            del self._rings[tenant]
        return bool(self._rings)
