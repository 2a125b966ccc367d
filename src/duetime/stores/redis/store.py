"""The store on Redis: each call is a script, or a few of them one after the other."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from duetime import ids
from duetime.audit_line import AuditLine
from duetime.clock import Millis
from duetime.stores import Change, Count, Due, Insert, Key, News, Page, Query, Record, Waking
from duetime.stores.listening import Listener, pieces
from duetime.stores.pooled import QUICK_WITHIN, SEARCH_WITHIN, PooledStore
from duetime.stores.portions import parts, portions
from duetime.stores.redis import rows, scripts
from duetime.stores.redis.address import Address
from duetime.stores.redis.durability import check
from duetime.stores.redis.errors import FAILURES, translated
from duetime.stores.redis.link import Argument, Link
from duetime.stores.redis.pool import ANSWERED_WITHIN, Pool
from duetime.stores.redis.traits import TRAITS
from duetime.stores.schema import check_not_newer, check_steps
from duetime.stores.walking import Part, walk
from duetime.timer import Attempt, Event, Status, Timer

SCHEMA = 2

# While a script runs, the server serves nobody else: so none may have much to do.
HEAVIEST = 4 * 1024 * 1024  # bytes that go one way at once, beside one timer that may be heavier
LONGEST = 500  # timers that are written or read at once
MOST_LINES = 5_000  # of an index that are looked at
MOST_DROPPED = 250

LINES_OF_NEWS = 500  # in one message

_OPENED_WITHIN = 30.0  # seconds, with all that a server is asked before it is used
_TURN = 1.0  # seconds of the three that a heartbeat has, until its turn comes
_LISTEN_AGAIN = 1.0  # seconds after the line was lost


class RedisStore(PooledStore[Link]):
    """Keeps timers on a Redis server that writes everything to its disk before it answers."""

    traits = TRAITS

    def __init__(self, address: Address, *, must_exist: bool = False) -> None:
        self._address = address
        self._must_exist = must_exist
        super().__init__(
            Pool(address, address.pool_size, self._vet),
            Pool(address, 1, self._vet, free_within=_TURN, answered_within=QUICK_WITHIN - _TURN),
            searches=max(address.pool_size // 3, 1),
        )
        # Channels know no databases: their number is in the name.
        self._channel = self._name(f"news:{address.database}")
        self._listener = Listener(FAILURES, lambda: _LISTEN_AGAIN, None)

    async def _open(self) -> None:
        with translated():
            async with asyncio.timeout(_OPENED_WITHIN):
                link = await Link.open(self._address)
                try:
                    await self._prepare(link)
                finally:
                    await link.close()
        self._listener.listen_by(self._hear)

    async def _shut(self) -> None:
        await self._listener.close()
        await super()._shut()

    async def _prepare(self, link: Link) -> None:
        if not self._must_exist:
            await self._check_server(link)
            await link.ask("SET", self._name("schema"), SCHEMA, "NX")
            await link.ask(*self._call(scripts.MIGRATE, SCHEMA))
        await self._vet(link)

    async def _vet(self, link: Link) -> None:
        """See to it that the server is fit for timers, and that ours are there."""
        await self._check_server(link)
        number = int(await link.ask("GET", self._name("schema")) or 0)
        check_steps(self._address.place, number, SCHEMA)
        check_not_newer(self._address.place, number, number, SCHEMA)

    async def _check_server(self, link: Link) -> None:
        # One that is only read, to be copied from, may be as unsafe as it likes.
        await check(link, is_checked=self._address.is_checked and not self._must_exist)

    async def ping(self) -> None:
        await self._run(_ask, "PING")

    async def insert(self, inserts: Sequence[Insert]) -> list[Timer | None]:
        self._check_open()
        answers: list[Timer | None] = []
        with translated():
            new = [rows.of_insert(insert) for insert in inserts]
        for part in _by_weight(new):
            left = part
            while left:  # it answers for as many as are not too heavy
                taken = await self._write(_ask, *self._call(scripts.INSERT, HEAVIEST, *left))
                answers += _timers(taken)
                left = left[len(taken) :]
        return answers

    async def apply(self, changes: Sequence[Change]) -> list[bool]:
        self._check_open()
        answers: list[bool] = []
        with translated():
            changed = [rows.of_change(change) for change in changes]
        for part in _by_weight(changed):
            won = await self._write(_ask, *self._call(scripts.APPLY, *part))
            answers += map(bool, won)
        return answers

    async def remove(self, timers: Sequence[Timer]) -> list[bool]:
        self._check_open()
        answers: list[bool] = []
        for part in parts(timers, MOST_DROPPED):
            asked: list[Argument] = []
            for timer in part:
                asked += (timer.id, timer.version)
            won = await self._write(_ask, *self._call(scripts.REMOVE, *asked))
            answers += map(bool, won)
        return answers

    async def get(self, ids: Sequence[str], tenant: str | None = None) -> list[Timer | None]:
        self._check_open()
        answers: list[Timer | None] = []
        owner = "" if tenant is None else tenant  # nobody is called by no name
        while left := ids[len(answers) : len(answers) + LONGEST]:
            found = await self._run(_ask, *self._call(scripts.READ, HEAVIEST, owner, *left))
            answers += _timers(found)
        return answers

    async def get_by_key(self, keys: Sequence[Key]) -> list[Timer | None]:
        self._check_open()
        owners: list[str] = []
        for part in parts(keys, LONGEST):
            with translated():
                names = [self._name("key:").encode() + rows.key_name(key) for key in part]
            found = await self._run(_ask, "MGET", *names)
            owners += ["" if each is None else each.decode() for each in found]
        return await self.get(owners)

    async def due(
        self, shards: Collection[int], after: Due | None, before: Millis, limit: int
    ) -> list[Waking]:
        self._check_open()
        found: list[Waking] = []
        if not shards or before < 0 or limit <= 0:
            return found
        mask, until = _mask(shards), f"{rows.moment(before)}~"
        behind = "" if after is None else rows.behind(after)
        while len(found) < limit:
            asked = (mask, behind, until, limit - len(found), MOST_LINES)
            lines, last = await self._run(_ask, *self._call(scripts.DUE, *asked))
            found += map(rows.to_waking, lines)
            if not last:
                break
            behind = last
        return found

    async def search(self, query: Query) -> Page:
        self._check_open()
        self.traits.check(query)

        async def read(_: int, place: str | None, is_descending: bool, limit: int) -> Part:  # noqa: FBT001 - see Read
            index = f"tenant:{query.tenant}"
            return await self._page(index, place, limit, is_descending=is_descending)

        async with self._searching.taken_within(SEARCH_WITHIN):
            return await walk(query, [0], read)  # all shards are in one order already

    async def count(self, tenant: str) -> list[Count]:
        counts: Counter[tuple[str, Status]] = Counter()
        place: str | bytes | None = ""
        while place is not None:
            asked = self._call(scripts.COUNT, tenant, place, LONGEST)
            async with self._searching.taken_within(SEARCH_WITHIN):
                last, *some = await self._run(_ask, *asked)
            for group, status, timers in some:
                counts[group.decode(), Status(status.decode())] += timers
            place = last or None
        return [Count(*which, timers) for which, timers in counts.items()]

    async def scan(self, after: str | None, limit: int) -> list[Timer]:
        self._check_open()
        part = await self._page("ids", after, min(limit, LONGEST), is_descending=False)
        return part.timers

    async def _page(
        self, index: str, place: str | None, limit: int, *, is_descending: bool
    ) -> Part:
        asked = (index, place or "", int(is_descending), limit, HEAVIEST)
        found, is_last = await self._run(_ask, *self._call(scripts.PAGE, *asked))
        return Part([rows.to_timer(row) for row in found], bool(is_last))

    async def attempts(
        self, timer: str, after: tuple[int, int] | None, limit: int
    ) -> list[Attempt]:
        behind = "-" if after is None else f"({rows.attempt_name(*after)}~"
        lines = await self._lines(f"log:{timer}", behind, limit)
        return [rows.to_attempt(line) for line in lines]

    async def events(self, shards: Collection[int], after: str | None, limit: int) -> list[Event]:
        self._check_open()
        found: list[Event] = []
        behind = "-" if after is None else f"({after}~"
        while shards and len(found) < limit:
            lines = await self._lines("events", behind, LONGEST)
            told = [rows.to_event(line) for line in lines]
            found += [each for each in told if ids.shard_of(each.id) in shards]
            if len(told) < LONGEST:
                break
            behind = f"({told[-1].id}~"
        return found[:limit]

    async def published(self, ids: Sequence[str]) -> None:
        self._check_open()
        for part in parts(ids, LONGEST):
            await self._run(_ask, *self._call(scripts.PUBLISHED, *part))

    async def records(self, kind: str) -> list[Record]:
        flat = await self._run_quickly(_ask, "HGETALL", self._name(f"record:{kind}"))
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return [rows.to_record(kind, name, stored) for name, stored in sorted(pairs)]

    async def put_record(self, old: Record | None, new: Record | None) -> bool:
        self._check_open()
        record = new or old
        if record is None:
            return False
        version = "" if old is None else str(old.version)
        asked = (record.kind, record.name, version, "" if new is None else rows.of_record(new))
        return bool(await self._run_quickly(_ask, *self._call(scripts.PUT_RECORD, *asked)))

    async def purge(self, shards: Collection[int], before: Millis, limit: int) -> int:
        return await self._purge("done", shards, rows.moment(before), limit)

    async def drop_outlived(self, shards: Collection[int], now: Millis, limit: int) -> int:
        return await self._purge("outlived", shards, f"{rows.moment(now)}~", limit)

    async def _purge(self, index: str, shards: Collection[int], until: str, limit: int) -> int:
        self._check_open()
        dropped, behind = 0, ""
        if not shards:
            return dropped
        mask = _mask(shards)
        while dropped < limit:
            asked = (index, mask, behind, until, limit - dropped, MOST_DROPPED)
            more, behind = await self._run(_ask, *self._call(scripts.PURGE, *asked))
            dropped += more
            if not behind:
                break
        return dropped

    async def write_lines(self, lines: Sequence[AuditLine], keep_for: Millis | None) -> None:  # noqa: ARG002 - see drop_lines
        self._check_open()
        with translated():
            written = [rows.of_line(line) for line in lines]
        for part in portions(written, _weight, heaviest=HEAVIEST, longest=LONGEST):
            asked: list[Argument] = []
            for line in part:
                asked += line
            await self._run(_ask, *self._call(scripts.WRITE_LINES, *asked))

    async def lines(
        self, tenant: str, after: str | None, limit: int, *, descending: bool
    ) -> list[AuditLine]:
        index, place = f"audit:{tenant}", ids.bound(after or "")
        if not descending:
            lines = await self._lines(index, "-" if after is None else f"({place}~", limit)
        else:
            behind = "+" if after is None else f"({place}"
            asked = ("ZREVRANGEBYLEX", self._name(index), behind, "-", "LIMIT", 0, limit)
            lines = await self._run(_ask, *asked)
        return [rows.to_line(line) for line in lines]

    async def drop_lines(self, before: Millis, limit: int) -> int:
        self._check_open()
        dropped, more = 0, MOST_DROPPED
        while dropped < limit and more == MOST_DROPPED:
            asked = (ids.first_at(before), min(limit - dropped, MOST_DROPPED))
            more = await self._run(_ask, *self._call(scripts.DROP_LINES, *asked))
            dropped += more
        return dropped

    async def announce(self, news: News) -> None:
        self._check_open()
        for piece in pieces(news, LINES_OF_NEWS):
            await self._run(_ask, "PUBLISH", self._channel, piece)

    def listen(self, hear: Callable[[News], None]) -> None:
        self._listener.add(hear)

    async def _hear(self) -> None:
        """Pass on what is announced, until the line is lost."""
        link = await Link.open(self._address)
        try:
            async with asyncio.timeout(ANSWERED_WITHIN):
                await link.ask("SUBSCRIBE", self._channel)
            self._listener.tell(News(is_about_nodes=True))  # something may have been missed
            while True:
                _, _, text = await link.hear()
                self._listener.tell_text(text.decode(errors="replace"))
        finally:
            await link.close()

    async def _lines(self, index: str, behind: str, limit: int) -> list[bytes]:
        """Lines of an index in its order."""
        asked = ("ZRANGEBYLEX", self._name(index), behind, "+", "LIMIT", 0, limit)
        lines: list[bytes] = await self._run(_ask, *asked)
        return lines

    def _name(self, name: str) -> str:
        return f"{self._address.prefix}:{name}"

    def _call(self, script: str, *arguments: Argument) -> tuple[Argument, ...]:
        return ("EVAL", script, 0, self._address.prefix, *arguments)


async def _ask(link: Link, *question: Argument) -> Any:
    return await link.ask(*question)


def _timers(found: Iterable[list[bytes] | None]) -> Iterator[Timer | None]:
    return (None if row is None else rows.to_timer(row) for row in found)


def _mask(shards: Collection[int]) -> str:
    """A 1 for each shard that is asked for."""
    asked = frozenset(shards)
    return "".join("1" if shard in asked else "0" for shard in ids.ALL_SHARDS)


def _weight(line: tuple[str, str, bytes]) -> int:
    return len(line[2])


def _by_weight(packed: Iterable[bytes]) -> Iterator[list[bytes]]:
    return portions(packed, len, heaviest=HEAVIEST, longest=LONGEST)
