"""Searching: a filter says all that can be asked of timers, more than a store can answer.

What a ``Query`` can say goes into the query. The rest is sifted here, page by page: who has looked
at many timers and found too few gives up, and the page says where, as ``stores.walking`` does it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from duetime import metadata as documents
from duetime.appetite import Appetite
from duetime.clock import Millis
from duetime.errors import InvalidRequest, UnsupportedQuery
from duetime.stores import Page, Query
from duetime.timer import Kind, Status, Timer

MOST_SEEN = 10_000  # timers that one search looks at
MOST_PAGES = 20  # that are looked through for one timer, where a store has no index for it
MOST_PATHS = 16  # of metadata that one search compares
PAGE = 200  # that are read at once
_HEAVY = 1 << 20  # bytes of metadata that are read in one go, before others have their turn

Read: TypeAlias = Callable[[Query], Awaitable[Page]]
Keep: TypeAlias = Callable[[Timer], Timer]


class Filter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to look for among the timers of a tenant. Times are half-open: after <= t < before."""

    statuses: tuple[Status, ...] = ()  # one of these; none: any
    groups: tuple[str, ...] | None = None  # in one of these; None: in any
    tags: tuple[str, ...] = ()  # all of these
    any_tags: tuple[str, ...] = ()  # at least one of these, if there are any
    name_prefix: str | None = None
    name_contains: str | None = None  # in either case
    correlation_id: str | None = None
    created_after: Millis | None = None
    created_before: Millis | None = None
    execute_after: Millis | None = None
    execute_before: Millis | None = None
    metadata: dict[str, Any] = {}  # by paths: see metadata.py
    last_error: str | None = None  # text in it, in either case
    outcome: Kind | None = None  # of the last attempt

    @property
    def needs_sifting(self) -> bool:
        """Tell whether it asks for more than a store can answer."""
        return (
            len(self.statuses) > 1
            or (self.groups is not None and len(self.groups) > 1)
            or len({*self.tags, *self._sole_tag}) > 1
            or len(self.any_tags) > 1
            or self.name_contains is not None
            or bool(self.metadata)
            or self.last_error is not None
            or self.outcome is not None
        )

    @property
    def _sole_tag(self) -> tuple[str, ...]:
        """One of one is all of one."""
        return self.any_tags if len(self.any_tags) == 1 else ()

    def within(self, groups: Collection[str] | None) -> "Filter":
        """The same among these groups only; None: among all."""
        if groups is None:
            return self
        asked = groups if self.groups is None else set(self.groups) & set(groups)
        return replace(self, groups=tuple(sorted(asked)))

    def before(self, created_before: Millis) -> "Filter":
        """The same among timers that were created before then."""
        mine = self.created_before
        return replace(
            self, created_before=created_before if mine is None else min(mine, created_before)
        )

    def query(self, tenant: str) -> Query | None:
        """The question to the store, as far as that can answer; None: there can be nothing."""
        if self.groups is not None and not self.groups:
            return None
        tags = self.tags or self._sole_tag
        return Query(
            tenant=tenant,
            status=self.statuses[0] if len(self.statuses) == 1 else None,
            group=self.groups[0] if self.groups is not None and len(self.groups) == 1 else None,
            tag=tags[0] if tags else None,
            name_prefix=self.name_prefix,
            correlation_id=self.correlation_id,
            created_after=self.created_after,
            created_before=self.created_before,
            execute_after=self.execute_after,
            execute_before=self.execute_before,
        )

    def matches(self, timer: Timer) -> bool:
        """Tell whether a timer of the right tenant is what it looks for."""
        spec = timer.spec
        return (
            (not self.statuses or timer.status in self.statuses)
            and (self.groups is None or timer.group in self.groups)
            and all(tag in spec.tags for tag in self.tags)
            and (not self.any_tags or any(tag in spec.tags for tag in self.any_tags))
            and (self.name_prefix is None or (spec.name or "").startswith(self.name_prefix))
            and (self.correlation_id is None or spec.correlation_id == self.correlation_id)
            and _is_between(timer.created_at, self.created_after, self.created_before)
            and _is_between(timer.execute_at, self.execute_after, self.execute_before)
            and self._is_told(timer)
            and self._is_noted(timer)
        )

    def _is_told(self, timer: Timer) -> bool:
        """Tell whether the texts and the outcome are those that are looked for."""
        progress = timer.progress
        return (
            _has(timer.spec.name, self.name_contains)
            and _has(progress.last_error, self.last_error)
            and (
                self.outcome is None
                or (progress.outcome is not None and progress.outcome.kind is self.outcome)
            )
        )

    def _is_noted(self, timer: Timer) -> bool:
        """Tell whether the metadata are those that are looked for."""
        if not self.metadata:
            return True
        if timer.spec.metadata is UNSET:
            return False
        document = documents.read(timer.spec.metadata)
        return all(
            documents.are_equal(documents.at(document, documents.steps_of(path)), value)
            for path, value in self.metadata.items()
        )


EVERYTHING = Filter()


def _whole(timer: Timer) -> Timer:
    return timer


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of what is found, and in which order; as in a ``Query``."""

    sort: Literal["created_at", "execute_at"] = "created_at"
    descending: bool = True
    limit: int = 50
    offset: int = 0
    after: tuple[Millis, str] | None = None
    with_total: bool | None = None  # None: on first pages, where the store counts


async def search(
    read: Read,
    tenant: str,
    wanted: Filter,
    part: Part,
    *,
    counts: bool = False,
    most_seen: int = MOST_SEEN,
    appetite: Appetite | None = None,
    keep: Keep = _whole,
) -> Page:
    """A page of the timers of a tenant that are wanted.

    With an appetite they are read some at a time; what is to be kept of each is asked before the
    next ones are read.
    """
    query = wanted.query(tenant)
    if query is None:
        return Page([], 0 if part.with_total else None)
    query = replace(
        query,
        sort=part.sort,
        descending=part.descending,
        limit=part.limit,
        offset=part.offset,
        after=part.after,
    )
    if not wanted.needs_sifting:
        is_first = part.after is None
        with_total = (is_first and counts) if part.with_total is None else part.with_total
        return await _gathered(read, replace(query, with_total=with_total), appetite, keep)
    if part.with_total:
        raise InvalidRequest(
            "total: is not known for these filters, which are answered by reading along; leave it "
            "out, or count them by an action with dry_run"
        )
    sieve = _Sieve(wanted, query, most_seen, keep)
    return await _sifted(read, query, sieve, appetite)


async def has_any(read: Read, query: Query) -> bool:
    """Tell whether there is a timer; TimeoutError where a store has no index and far too many."""
    query = replace(query, limit=1)
    for _ in range(MOST_PAGES):
        page = await read(query)
        if page.timers:
            return True
        if page.stopped_at is None:
            return False
        query = replace(query, after=page.stopped_at)
    raise TimeoutError(f"after {MOST_PAGES} pages nobody knows whether there is one")


async def _gathered(read: Read, query: Query, appetite: Appetite | None, keep: Keep) -> Page:
    """A page as a store answers it, or put together of some that are read one after the other.

    A timer that was moved meanwhile, and is read again, is shown where it is now.
    """
    found: dict[str, Timer] = {}
    total: int | None = None
    while True:
        limit = _bite(query.limit - len(found), appetite)
        page = await read(replace(query, limit=limit))
        if appetite is not None:
            appetite.learn(page.timers)
        for timer in map(keep, page.timers):
            found.pop(timer.id, None)
            found[timer.id] = timer
        total = page.total if total is None else total
        stopped_at, is_over = page.stopped_at, len(page.timers) < limit
        if stopped_at is not None or is_over or len(found) >= query.limit:
            return Page([*found.values()], total, stopped_at)
        after = _place_of(page.timers[-1], query)
        del page  # before the next one is read
        query = replace(query, offset=0, after=after, with_total=False)


async def _sifted(read: Read, query: Query, sieve: "_Sieve", appetite: Appetite | None) -> Page:
    """A page of what a sieve holds back."""
    place = query.after
    while True:
        limit = _bite(PAGE, appetite)
        page = await read(replace(query, limit=limit, offset=0, after=place))
        if appetite is not None:
            appetite.learn(page.timers)
        if (answer := await sieve.sift(page.timers)) is not None:
            return answer
        if page.stopped_at is not None:  # the store has given up, after as many
            return sieve.given_up(page.stopped_at)
        if len(page.timers) < limit:
            return Page(sieve.found)
        place = _place_of(page.timers[-1], query)
        del page  # before the next one is read


class _Sieve:
    """What was found so far, among how many."""

    def __init__(self, wanted: Filter, query: Query, most_seen: int, keep: Keep) -> None:
        self.found: list[Timer] = []
        self._wanted = wanted
        self._query = query
        self._most_seen = most_seen
        self._keep = keep
        self._left_out = query.offset
        self._seen = 0
        self._weight = 0

    async def sift(self, timers: list[Timer]) -> Page | None:
        """Look at some timers; the answer is the page, if it ends with one of them."""
        for timer in timers:
            self._seen += 1
            if self._wanted.matches(timer):
                if self._left_out:
                    self._left_out -= 1
                else:
                    self.found.append(self._keep(timer))
                if len(self.found) == self._query.limit:
                    return Page(self.found)
            if self._seen >= self._most_seen:
                return self.given_up(_place_of(timer, self._query))
            self._weight += timer.weight if self._wanted.metadata else 0
            if self._weight > _HEAVY:
                self._weight = 0
                await asyncio.sleep(0)
        return None

    def given_up(self, place: tuple[Millis, str]) -> Page:
        """The page that ends there, though there may be more behind it."""
        if self._left_out:  # nobody could say from where to go on
            raise UnsupportedQuery(
                f"offset: so many matches were not found among {self._most_seen:,} timers; bound "
                "the search by created_after and created_before, or go on with cursor instead"
            )
        return Page(self.found, stopped_at=place)


def _bite(limit: int, appetite: Appetite | None) -> int:
    return limit if appetite is None else min(limit, appetite.most)


def _place_of(timer: Timer, query: Query) -> tuple[Millis, str]:
    return getattr(timer, query.sort), timer.id


def _is_between(at: Millis, after: Millis | None, before: Millis | None) -> bool:
    return (after is None or at >= after) and (before is None or at < before)


def _has(text: str | None, part: str | None) -> bool:
    return part is None or (text is not None and part.casefold() in text.casefold())
