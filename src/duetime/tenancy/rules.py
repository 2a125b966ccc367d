"""The rules: what this node knows of all tenants, keys, groups, targets, secrets and credentials.

They are small documents in the store, which every node keeps in memory. Beside them the store has
a revision of each kind, raised with every change: that is all that is read with each heartbeat, and
whatever has a new revision is read anew. A change is acknowledged once its revision is raised, so a
node that has seen the revision has seen the change. ``members.py`` writes the revision of the
groups that a node goes by into its record: whoever must know that all nodes obey, waits for that.
Likewise the revision of the tenants by which it makes all that is being made, and that of the
targets by which it sends.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from duetime.clock import Clock
from duetime.errors import StoreError, Unanswered
from duetime.stores import News, Record, Store
from duetime.tenancy import api_key, credential, group, signing_secret, target, tenant
from duetime.tenancy.api_key import ApiKey
from duetime.tenancy.credential import Credential
from duetime.tenancy.group import Group
from duetime.tenancy.limits import BOUNDLESS, Limits
from duetime.tenancy.quotas import UNLIMITED, Quotas
from duetime.tenancy.signing_secret import Owner, SigningSecret
from duetime.tenancy.target import Target
from duetime.tenancy.tenant import Tenant
from duetime.timer import DEFAULT_TENANT

REVISIONS = "revision"  # the kind of the records whose versions are the revisions, one per kind

# Seconds after which everything is read anew, whatever the revisions say: a node may have died
# between a change and its revision.
READ_ANEW_EVERY = 60.0

DocumentT = TypeVar("DocumentT", Tenant, ApiKey, Group, Target, SigningSecret, Credential)


class Kept(NamedTuple, Generic[DocumentT]):
    """A document with the record that it was read from."""

    record: Record
    document: DocumentT


class Shelf(Generic[DocumentT]):
    """All documents of one kind, by the names of their records."""

    def __init__(self, kind: str, type_: type[DocumentT]) -> None:
        self.kind = kind
        self.revision = -1
        self.is_doubtful = True  # what is kept may not be what is stored, whatever the revision
        self.is_untold = False  # what is kept has no revision yet by which others would read it
        self._decoder: msgspec.json.Decoder[DocumentT] = msgspec.json.Decoder(type_)
        self._kept: dict[str, Kept[DocumentT]] = {}

    def find(self, name: str) -> DocumentT | None:
        """The document in the record of this name."""
        kept = self._kept.get(name)
        return None if kept is None else kept.document

    def kept(self, name: str) -> Kept[DocumentT] | None:
        """The document with its record, to change it."""
        return self._kept.get(name)

    def all(self) -> list[Kept[DocumentT]]:
        """Every document with its record."""
        return list(self._kept.values())

    def __iter__(self) -> Iterator[DocumentT]:
        return iter([kept.document for kept in self._kept.values()])

    def fill(self, records: list[Record]) -> bool:
        """Have exactly these; tells whether that changes anything.

        What has not changed stays the object that it was.
        """
        before, after = self._kept, {}
        for record in records:
            kept = before.get(record.name)
            if kept is None or kept.record != record:
                kept = Kept(record, self._decoder.decode(record.data))
            after[record.name] = kept
        self._kept = after
        self.is_doubtful = False
        return after != before


class Rules:
    """What this node knows."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.tenants = Shelf(tenant.KIND, Tenant)
        self.keys = Shelf(api_key.KIND, ApiKey)
        self.groups = Shelf(group.KIND, Group)
        self.targets = Shelf(target.KIND, Target)
        self.signing_secrets = Shelf(signing_secret.KIND, SigningSecret)
        self.credentials = Shelf(credential.KIND, Credential)
        self._shelves: tuple[Shelf[Any], ...] = (
            self.tenants,
            self.keys,
            self.groups,
            self.targets,
            self.signing_secrets,
            self.credentials,
        )
        self.revision = 0  # of the groups: what nodes must be seen to obey
        self.edition = 0  # another one with every change that this node hears of
        self._makings: dict[int, int] = {}  # how much is made just now, by revision of the tenants
        self._looked_at = -math.inf  # when the last look was begun
        self._read_at = -math.inf  # when everything was read, whatever the revisions said
        self._look = asyncio.Lock()
        self.on_change: Callable[[], None] = lambda: None  # called when this node has changed some
        self.limited: dict[str, Quotas] = {}  # those who have quotas, by the names of their records
        self.bounded: dict[str, Limits] = {}  # those whose callbacks have limits, likewise
        self.is_shared = False  # there is more than one tenant
        self._held: dict[tuple[str, str], Group] = {}  # groups whose timers may not just be started
        self._secrets_of: dict[Owner, tuple[SigningSecret, ...]] = {}
        self.paused: dict[str, Target] = {}  # by the names of their records; another one if changed

    def group(self, tenant: str, name: str) -> Group | None:
        """A group, if it is known and was not deleted."""
        found = self.groups.find(group.name_of(tenant, name))
        return None if found is None or found.deleted_at is not None else found

    def credential(self, tenant: str, name: str, group: str) -> Credential | None:
        """A credential that timers of this group may use, if it is known."""
        found = self.credentials.find(credential.name_of(tenant, name))
        return found if found is not None and found.is_for(group) else None

    def target(self, tenant: str, name: str) -> Target | None:
        """What is known of a tenant's target, if anybody has something to say about it."""
        return self.targets.find(target.name_of(tenant, name))

    def held(self, tenant: str, name: str) -> Group | None:
        """The group, if it is paused, or was and what fell due meanwhile is not yet seen to."""
        return self._held.get((tenant, name)) if self._held else None

    def secrets_of(self, owner: Owner) -> tuple[SigningSecret, ...]:
        """The signing secrets of a group, or of a tenant; the newest first, ended ones too."""
        return self._secrets_of.get(owner, ())

    @contextmanager
    def making(self) -> Iterator[None]:
        """Make something by the tenants as they are now, whatever becomes of them meanwhile.

        A write that nobody waits for any more counts as long as it may still land.
        """
        revision = self.tenants.revision
        self._makings[revision] = self._makings.get(revision, 0) + 1
        under_way: asyncio.Future[None] | None = None
        try:
            yield
        except Unanswered as error:
            under_way = error.ended
            raise
        finally:
            if under_way is None:
                self._end_making(revision)
            else:
                under_way.add_done_callback(lambda _: self._end_making(revision))

    def _end_making(self, revision: int) -> None:
        self._makings[revision] -= 1
        if not self._makings[revision]:
            del self._makings[revision]

    def makes_by(self) -> int:
        """The revision of the tenants that all goes by which this node is making, or will make."""
        return min(self._makings, default=self.tenants.revision)

    async def look(self, *, anew: bool = False) -> None:
        """Make sure that all is known that was acknowledged before this was asked.

        ``anew``: also what was written and not acknowledged, because its node failed on the way.
        """
        asked_at = self._clock.monotonic()
        async with self._look:
            if anew or self._looked_at <= asked_at:  # else somebody else has looked since
                await self._read(anew=anew)

    async def _read(self, *, anew: bool) -> None:
        began_at = self._clock.monotonic()
        records = await self._store.records(REVISIONS)
        revisions = {record.name: record.version for record in records}
        is_time = anew or began_at >= self._read_at + READ_ANEW_EVERY
        for shelf in self._shelves:
            revision = revisions.get(shelf.kind, 0)
            if is_time or shelf.is_doubtful or revision != shelf.revision:
                self._fill(shelf, await self._store.records(shelf.kind), revision)
            if shelf.is_untold:
                await self._raise_revision(shelf.kind)
                shelf.is_untold = False
            shelf.revision = revision
        self.revision = self.groups.revision
        self._looked_at = began_at
        if is_time:
            self._read_at = began_at

    def _fill(self, shelf: Shelf[Any], records: list[Record], revision: int) -> None:
        """Know what was read, all of it at once: whatever fails after this, it is gone by."""
        if shelf.fill(records):
            self._sort()
            # Somebody wrote it and failed before they could tell: the others must know.
            shelf.is_untold = shelf.is_untold or revision == shelf.revision

    def _sort(self) -> None:
        """Note which groups are held, which targets paused, who has quotas, limits and secrets.

        All of it is asked for again and again.
        """
        self.edition += 1
        self._secrets_of = signing_secret.by_owner(
            self.signing_secrets,
            {
                kept.record.name: kept.document
                for kept in self.groups.all()
                if kept.document.deleted_at is None
            },
        )
        self._held = {
            (each.tenant, each.name): each
            for each in self.groups
            if each.deleted_at is None and (each.is_paused or each.resuming is not None)
        }
        self.paused = {
            kept.record.name: kept.document
            for kept in self.targets.all()
            if kept.document.paused_at is not None
        }
        self.limited = {
            kept.record.name: kept.document.quotas
            for shelf in (self.tenants, self.groups)
            for kept in shelf.all()
            if kept.document.quotas != UNLIMITED and kept.document.deleted_at is None
        }
        bounded = {
            kept.record.name: kept.document.limits
            for shelf in (self.tenants, self.groups)
            for kept in shelf.all()
            if kept.document.limits != BOUNDLESS and kept.document.deleted_at is None
        } | {
            kept.record.name: kept.document.limits
            for kept in self.targets.all()
            if kept.document.limits != BOUNDLESS
        }
        if bounded != self.bounded:
            self.bounded = bounded
        self.is_shared = any(
            each.name != DEFAULT_TENANT and each.deleted_at is None for each in self.tenants
        )

    async def put(
        self,
        shelf: Shelf[DocumentT],
        name: str,
        old: Kept[DocumentT] | None,
        new: DocumentT | None,
    ) -> bool:
        """Write a document in the place of the one that was read, or of none; tell whether it was.

        When it answers, everybody who looks from now on sees it.
        """
        return bool(await self.put_all(shelf, [(name, old, new)]))

    async def put_all(
        self,
        shelf: Shelf[DocumentT],
        changes: Iterable[tuple[str, Kept[DocumentT] | None, DocumentT | None]],
    ) -> int:
        """Write many, and raise the revision once for all; tells how many were written."""
        shelf.is_doubtful = True  # until it has been read again, whatever comes of this
        written = 0
        for name, old, new in changes:
            record = None
            if new is not None:
                version = 1 if old is None else old.record.version + 1
                data = msgspec.json.encode(new)
                record = Record(kind=shelf.kind, name=name, version=version, data=data)
            written += await self._store.put_record(None if old is None else old.record, record)
        if written:
            await self._raise_revision(shelf.kind)
        await self.look()
        if written:
            await self._tell()
        return written

    async def begin_revision(self, shelf: Shelf[Any]) -> int:
        """Begin another revision though nothing has changed, to see when all nodes go by it."""
        await self._raise_revision(shelf.kind)
        await self.look()
        await self._tell()
        return shelf.revision

    async def _tell(self) -> None:
        self.on_change()
        with suppress(StoreError):  # news are hints
            await self._store.announce(News(is_about_rules=True))

    async def _raise_revision(self, kind: str) -> None:
        while True:
            records = await self._store.records(REVISIONS)
            old = next((record for record in records if record.name == kind), None)
            version = 1 if old is None else old.version + 1
            if await self._store.put_record(
                old, Record(kind=REVISIONS, name=kind, version=version)
            ):
                return
