"""The journal of a move: how far it has come, as a record in the store that is moved into.

It says two things more. A store that holds it is being moved into, so that timers may be in it
already; and if the store that is moved from holds it too, the two are one.
"""

import secrets

import msgspec

from duetime.errors import ConfigurationError, InUse
from duetime.moving.contents import Contents
from duetime.moving.patience import Patience
from duetime.stores import Record, Store

COPY_KIND = "copy"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What the record says."""

    run: str  # another one each time that the move is begun or resumed
    after: str | None = None  # the last timer of the source that is in the target for sure
    timers: int = 0  # that had been copied by then
    # The same of the lines of the audit, which come tenant by tenant, in the order of their names.
    tenant: str | None = None
    line: str | None = None
    lines: int = 0


class Journal:
    """The record of one move, in the target."""

    def __init__(self, target: Store, name: str, patience: Patience) -> None:
        self._target = target
        self._name = name
        self._patience = patience
        self._record: Record | None = None
        self._entry = Entry(run=secrets.token_hex(8))

    @property
    def entry(self) -> Entry:
        """How far the move has come."""
        return self._entry

    async def begin(self) -> bool:
        """Take the journal up, or begin one in a store that is empty; whether it was there."""
        records = await self._patience.ask(self._target.records, COPY_KIND)
        mine = [record for record in records if record.name == self._name]
        if mine:
            [self._record] = mine
            self._entry = _resumed(self._record.data, self._entry)
        elif await self._patience.ask(self._target.scan, None, 1):
            raise ConfigurationError(
                "TO: there are timers in it, which this copy did not bring: name an empty database"
            )
        elif await Contents(self._target, self._patience).is_lived_in():
            raise ConfigurationError(
                "TO: there are tenants, keys, groups or lines of an audit in it, which this copy "
                "did not bring: name an empty database"
            )
        await self._write(self._entry)
        for other in records:
            if other.name != self._name:  # of a move that brought nothing: it may not go on now
                await self._patience.ask(self._target.put_record, other, None)
        return bool(mine)

    async def is_in(self, store: Store) -> bool:
        """Tell whether a store shows what was just written into the target."""
        return self._record in await self._patience.ask(store.records, COPY_KIND)

    async def advance(self, after: str, timers: int) -> None:
        """Note that everything up to this timer has been copied."""
        await self._write(msgspec.structs.replace(self._entry, after=after, timers=timers))

    async def advance_lines(self, tenant: str, line: str, lines: int) -> None:
        """Note that all lines of the audit up to this one have been copied."""
        await self._write(
            msgspec.structs.replace(self._entry, tenant=tenant, line=line, lines=lines)
        )

    async def end(self) -> None:
        """Remove it: the move is over."""
        await self._put(None)

    async def _write(self, entry: Entry) -> None:
        version = self._record.version + 1 if self._record else 1
        data = msgspec.json.encode(entry)
        await self._put(Record(kind=COPY_KIND, name=self._name, version=version, data=data))
        self._entry = entry

    async def _put(self, new: Record | None) -> None:
        old = self._record
        if not await self._patience.ask(self._target.put_record, old, new):
            # It may be that an earlier try was written, and only its answer lost.
            records = await self._patience.ask(self._target.records, COPY_KIND)
            stored = [record for record in records if record.name == self._name]
            if stored != ([new] if new else []):
                raise InUse("TO: another copy into it was begun meanwhile")
        self._record = new


async def check_no_move(store: Store) -> None:
    """Raise ConfigurationError if a move into this store was begun and not finished."""
    if await store.records(COPY_KIND):
        raise ConfigurationError(
            "DATABASE_URL: a copy into this database was begun and has not been finished: run the "
            "same duetime copy again, which goes on where it was, and start then"
        )


def _resumed(data: bytes, fresh: Entry) -> Entry:
    """The entry to go on from; what cannot be read, another version wrote: from the beginning."""
    try:
        return msgspec.structs.replace(msgspec.json.decode(data, type=Entry), run=fresh.run)
    except msgspec.MsgspecError:
        return fresh
