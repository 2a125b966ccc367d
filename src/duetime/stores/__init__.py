"""The store contract: everything that an implementer must obey.

A store keeps rows and compares versions. It never reads a clock, logs, retries or decides:
time comes in as an argument, and policy lives above. Every method carries many at once, because
a round trip and a commit cost far more than a row.

**The row is the truth.** ``apply`` writes a change if, and only if, the stored version is still
the old timer's. Losing that race is the value ``False``. The new row, its attempt and its events
are written together or not at all. That is all the atomicity that is asked for: one timer at a
time, and everything of one timer lies in its shard (``timer.shard``, also readable from its id,
from its attempts' timer id and from its events' ids). An engine whose conditional writes reach no
further than one partition, or a few items, can obey it. The changes of one batch need not be
atomic together; when two of them concern the same timer, they take effect in the order given.

**The due index is a hint.** ``due`` may answer from stale data or miss a row for a while, but
never for good: whoever fires on a stale hint loses the race in ``apply``.

**An exception means unknown.** A write that raised may or may not have landed, in part or whole:
re-read before retrying. A store raises ``StoreUnavailable`` for all that its engine can throw at
it, and no driver's exception escapes it. When ``insert`` or ``apply`` raises it, the write is over,
so that a re-read tells what became of it; where a store cannot be sure of that, because the engine
may still be at work, it raises ``Unanswered``.

An answer has one entry for each thing asked, in the order asked.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import msgspec

from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.timer import Attempt, Event, Status, Timer

if TYPE_CHECKING:
    from duetime.stores.traits import Traits


class Key(NamedTuple):
    """What users call a timer. The shard is worked out from the rest by ``ids.key_shard``."""

    tenant: str
    group: str
    timer_id: str
    shard: int

    @classmethod
    def of(cls, timer: Timer) -> "Key":
        """What a timer is called."""
        return cls(timer.tenant, timer.group, timer.timer_id, timer.shard)


class Insert(msgspec.Struct, frozen=True, gc=False):
    """A timer to store, with the events that tell of it.

    One that comes from another store brings its execution log along. The attempts need not be
    written together with the timer, but before it: a timer that is there has all of them.
    """

    timer: Timer
    events: tuple[Event, ...] = ()
    attempts: tuple[Attempt, ...] = ()


class Change(msgspec.Struct, frozen=True, gc=False):
    """A timer as it was read and as it shall become.

    ``new`` has the same id, key and created_at, and a higher version. Where nothing that the user
    asked for changed, ``new.spec`` is the very object ``old.spec``: a store may skip writing it.
    """

    old: Timer
    new: Timer
    attempt: Attempt | None = None
    events: tuple[Event, ...] = ()

    @property
    def is_rewriting(self) -> bool:
        """Tell whether what the user asked for has changed, or only how far it has come."""
        old, new = self.old, self.new
        return (
            new.spec is not old.spec
            or new.execute_at != old.execute_at
            or new.fingerprint != old.fingerprint
        )


class Due(NamedTuple):
    """A place in the order of waking: rows at or before it have been seen."""

    wake_at: Millis
    id: str


class Waking(NamedTuple):
    """A line of the due index: which timer wakes when, and how heavy it is to read."""

    wake_at: Millis
    id: str
    version: int
    weight: int
    is_claimed: bool  # it is executing, and wakes when its claim runs out

    @classmethod
    def of(cls, timer: Timer) -> "Waking":
        """The line of a timer that wakes."""
        is_claimed = timer.status is Status.EXECUTING
        return cls(timer.wake_at or 0, timer.id, timer.version, timer.weight, is_claimed)

    @property
    def place(self) -> Due:
        """Its place in the order of waking."""
        return Due(self.wake_at, self.id)


class News(msgspec.Struct, frozen=True, array_like=True):
    """What other nodes had better hear of before they would find it by themselves."""

    waking: tuple[Waking, ...] = ()  # timers that were just written, and wake soon
    is_about_nodes: bool = False  # a node has come or gone
    is_about_rules: bool = False  # a tenant, a key, a group or an action has changed


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A search among the timers of one tenant. Times are half-open: after <= t < before.

    The order is by ``sort``, ties by id, both in the same direction. ``after`` is the last timer
    of the page before: the answer goes on behind it, also if that timer is gone. ``created_at``
    may be answered in the order of ids, which is the order of creation.
    """

    tenant: str
    status: Status | None = None
    group: str | None = None
    tag: str | None = None
    name_prefix: str | None = None
    correlation_id: str | None = None
    created_after: Millis | None = None
    created_before: Millis | None = None
    execute_after: Millis | None = None
    execute_before: Millis | None = None
    sort: Literal["created_at", "execute_at"] = "created_at"
    descending: bool = True
    limit: int = 50
    offset: int = 0
    after: tuple[Millis, str] | None = None  # (value of the sort field, id)
    with_total: bool = False


class Page(msgspec.Struct, frozen=True):
    """One page of a search. ``total`` counts all matches, where asked for and cheap.

    An engine that filters by reading along gives up after a while. Then the page is shorter than
    its limit, perhaps empty, and ``stopped_at`` is the place of the last timer that was looked at:
    there may be more behind it.
    """

    timers: list[Timer]
    total: int | None = None
    stopped_at: tuple[Millis, str] | None = None  # like Query.after


class Count(NamedTuple):
    """How many timers of a group have a status."""

    group: str
    status: Status
    timers: int


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A small versioned document: a node, a tenant, a key, a group, an action under way."""

    kind: str
    name: str
    version: int = 1
    data: bytes = b""


class Store(Protocol):
    """Where timers live."""

    @property
    def traits(self) -> "Traits":
        """What this engine can do, and what it cannot."""
        ...

    async def migrate(self) -> None:
        """Bring the schema up to date. Idempotent, and safe when two do it at once."""

    async def ping(self) -> None:
        """Ask the engine for a sign of life; StoreUnavailable if there is none."""

    async def close(self) -> None:
        """Let go of every connection, after the writes under way have ended. Idempotent."""

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        """Store new timers: per timer None, or the timer that already has its key or its id.

        Atomic per timer; of two with one key, in one batch or in two at once, one is stored.
        """

    async def get(self, ids: Sequence[str], tenant: str | None = None) -> list[Timer | None]:
        """Read timers by id. Linearizable: it sees every write that was acknowledged before.

        With a tenant, the timers of others are not there, and their contents are not even read:
        how long the answer takes must not tell that they exist.
        """

    async def get_by_key(self, keys: Sequence[Key]) -> list[Timer | None]:
        """Read timers by key. Linearizable."""

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        """Write each change whose old version is still the stored one; tell which were."""

    async def due(
        self, shards: Collection[int], after: Due | None, before: Millis, limit: int
    ) -> list[Waking]:
        """The timers of these shards with a wake_at at or before ``before``, oldest first.

        In the order of (wake_at, id), behind ``after``, whatever their status. Pending ones are to
        be started; executing ones have a claim that runs out then; of failed ones, somebody is
        still to be told. The timers themselves are read by ``get``, and may have changed by then.
        """

    async def remove(self, timers: Sequence[Timer]) -> list[bool]:
        """Drop each timer whose stored version is still this one's, with its attempts; tell which.

        Whatever its status. Its events stay, until they have been told.
        """

    async def search(self, query: Query) -> Page:
        """A page of one tenant's timers. UnsupportedQuery names what it cannot answer."""

    async def count(self, tenant: str) -> list[Count]:
        """How many timers a tenant has in each group and status, in any order, but for none.

        What changes meanwhile may be counted as it was or as it is. An engine that has no index for
        it reads all timers: whoever asks must not ask often.
        """

    async def scan(self, after: str | None, limit: int) -> list[Timer]:
        """Every timer there is, of all tenants, a part at a time; for moving to another store.

        In an order of the store's own that never changes, behind the timer with the id ``after``,
        also if that one is gone. Where timers are heavy, an answer has fewer than ``limit``, so
        that it fits into memory. An empty answer is the end.
        """

    async def attempts(
        self, timer: str, after: tuple[int, int] | None, limit: int
    ) -> list[Attempt]:
        """A timer's execution log in order of (occurrence, attempt), behind ``after``."""

    async def events(self, shards: Collection[int], after: str | None, limit: int) -> list[Event]:
        """The events of these shards that were not yet published, by id, behind ``after``."""

    async def published(self, ids: Sequence[str]) -> None:
        """Forget these events: they have been told. Unknown ones are ignored."""

    async def records(self, kind: str) -> list[Record]:
        """Every document of a kind, by name. Linearizable."""

    async def put_record(self, old: Record | None, new: Record | None) -> bool:
        """Store a document if the stored one is still ``old`` by its version; tell whether.

        ``old`` is None: there must be none of that kind and name yet. ``new`` is None: remove it.
        """

    async def purge(self, shards: Collection[int], before: Millis, limit: int) -> int:
        """Drop finished timers last changed before then, with their attempts; how many.

        Only such as nobody has to look at any more (``timer.is_over``): never one with a wake_at.
        Those with a retention of their own (``spec.retention``) are left to ``drop_outlived``.
        ``limit`` bounds every answer, and one that reaches it says that there may be more to do at
        once. A store whose engine drops them by itself, since it was opened with a retention, has
        other work to do here, and counts that: see its ``purge``.
        """

    async def drop_outlived(self, shards: Collection[int], now: Millis, limit: int) -> int:
        """Drop finished timers whose own retention is over (``timer.drop_at``); how many.

        As ``purge`` does it otherwise. Where the engine drops timers by itself, it has been told of
        their own retention when they were written, and there is nothing to do here.
        """

    async def write_lines(self, lines: Sequence[AuditLine], keep_for: Millis | None) -> None:
        """Keep lines of the audit; one that is there already, by its id, is kept once.

        ``keep_for`` is for engines that drop by themselves what is old; None: they keep it.
        """

    async def lines(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]:
        """A tenant's lines by id, which is by time, behind ``after``, also if that one is gone.

        ``after`` is compared like an id, but need not be one: see ``ids.first_at``.
        """

    async def drop_lines(self, before: Millis, limit: int) -> int:
        """Drop lines of all tenants whose ids were made before then; how many.

        An engine that was told how long to keep them has nothing to do here.
        """

    async def announce(self, news: News) -> None:
        """Pass news on to every node that listens, this one as well.

        A hint like the due index: news may get lost, come late or twice, and an engine that has no
        way to pass them on drops them. Nothing may depend on them but how soon a thing is noticed.
        """

    def listen(self, hear: Callable[[News], None]) -> None:
        """From now on, call ``hear`` on the event loop with whatever is announced.

        It is called with ``News(is_about_nodes=True)`` too when news may have been missed, because
        a connection was lost for a while. ``hear`` must not raise, and must not take long.
        """
