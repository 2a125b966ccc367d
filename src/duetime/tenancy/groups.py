"""What can be done with groups, and where the timers of each are."""

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace

from duetime.auditing import Audit
from duetime.clock import Clock, Millis
from duetime.delivery import Sender
from duetime.errors import Conflict, InvalidRequest, NotFound, Unavailable
from duetime.layout import Layout
from duetime.searching import has_any
from duetime.stores import Key, Query, Store
from duetime.tenancy.caller import Caller
from duetime.tenancy.credentials import check_defaults
from duetime.tenancy.group import NO_DEFAULTS, Defaults, Group, name_of
from duetime.tenancy.group_settings import changed
from duetime.tenancy.newcomers import Newcomers
from duetime.tenancy.obedience import Watch
from duetime.tenancy.orphans import forget_group
from duetime.tenancy.requests import PutGroup
from duetime.tenancy.rules import Kept, Rules
from duetime.timer import DEFAULT_GROUP

MOST_GROUPS = 1_000  # of one tenant
MOST_NAMES = 10 * MOST_GROUPS  # with those of deleted ones, which keep their number of shards

_NO_TENANT = ""


class Groups:
    """The use cases on groups."""

    def __init__(
        self,
        rules: Rules,
        store: Store,
        sender: Sender,
        clock: Clock,
        audit: Audit,
        *,
        layout: Layout,
        are_made_by_timers: bool = True,
    ) -> None:
        self._rules = rules
        self._store = store
        self._sender = sender
        self._clock = clock
        self._audit = audit
        self._layout = layout
        self._are_made_by_timers = are_made_by_timers
        self._newcomers = Newcomers()

    # For timers -------------------------------------------------------------------------------

    def defaults(self, tenant: str, name: str) -> Defaults:
        """What a timer of this group is given that asks for nothing else."""
        group = self._rules.group(tenant, name)
        return NO_DEFAULTS if group is None else group.defaults

    def layout(self, tenant: str, name: str) -> Layout:
        """Over how many shards the timers of a group that is known are spread."""
        group = self._rules.groups.find(name_of(tenant, name))
        return self._layout if group is None else Layout(group.num_shards)

    async def locate(self, caller: Caller, name: str, timer_id: str) -> Key:
        """Where a timer with this key is, if there is one for them.

        In a group that is hidden from them there is none: it takes as long as for a group that is
        not there, and leads to a key that no timer has, so that none is read.
        """
        if not caller.sees_group(name):
            await self._rules.look()
            return self._layout.key_of(_NO_TENANT, name, timer_id)
        [key] = await self.locate_all(caller.tenant, [(name, timer_id)])
        return key

    async def locate_all(self, tenant: str, wanted: Sequence[tuple[str, str]]) -> list[Key]:
        """Where timers with these groups and ids are, if there are any."""
        names = {name for name, _ in wanted} - {DEFAULT_GROUP}
        if any(self._rules.groups.find(name_of(tenant, name)) is None for name in names):
            await self._rules.look()  # another node may have just made it
        return [self.layout(tenant, name).key_of(tenant, name, id_) for name, id_ in wanted]

    async def missing(self, caller: Caller, name: str, *, look: bool = True) -> Group | None:
        """The group that a timer has to make first, as it would be made; None: it is there.

        The timer is refused if it may not make it. Who has looked just now need not look again.
        """
        caller.check_group(name)
        if name == DEFAULT_GROUP or await self.is_kept(caller, name):
            return None
        if look:
            await self._rules.look()
            if await self.is_kept(caller, name):
                return None
        if not self._are_made_by_timers:
            raise InvalidRequest(f"group: there is no group '{name}'; create it first")
        return self._new(caller.tenant, name)

    async def make(self, caller: Caller, missing: Group) -> bool:
        """Make a group for its first timer, which is about to be written.

        Tells whether the group is as it was missed. If it is not, because somebody else was faster
        and made it otherwise, a timer that was drafted for it must be drafted anew.
        """
        name = missing.name
        kept = self._kept(caller, name)
        if kept is None or kept.document.deleted_at is not None:
            group = self._new(caller.tenant, name)
            if group.num_shards != missing.num_shards:
                return False  # it was there in between, and its name keeps its shards
            if await self._put_new(kept, group):
                await self._note(caller, "group.create", group, details={"by": "its first timer"})
                return True
        found = self._rules.group(caller.tenant, name)
        return found is not None and _gives_the_same(found, missing)

    def is_there(self, tenant: str, name: str) -> bool:
        """Tell whether this node knows of a group that was not deleted."""
        return name == DEFAULT_GROUP or self._rules.group(tenant, name) is not None

    async def make_anew(self, caller: Caller, name: str) -> None:
        """Make a group anew that was deleted while a timer of it was being written.

        Only what this node knows is asked, for it is asked of every timer: whoever deletes a group
        waits until every node knows, and cancels what was written before that. The group was there
        when its timer was let in, so this one is not refused.
        """
        while not self.is_there(caller.tenant, name):
            await self._rules.look()
            kept = self._kept(caller, name)
            if kept is not None and kept.document.deleted_at is None:
                return
            group = self._new(caller.tenant, name)
            if await self._rules.put(self._rules.groups, name_of(caller.tenant, name), kept, group):
                details: dict[str, object] = {"by": "a timer that was created as it was deleted"}
                await self._note(caller, "group.create", group, details)

    # For users --------------------------------------------------------------------------------

    async def list(self, caller: Caller) -> list[Group]:
        """The groups that there are for somebody, by name."""
        await self._rules.look()
        found = [
            group
            for group in self._rules.groups
            if group.tenant == caller.tenant and group.deleted_at is None
        ]
        if all(group.name != DEFAULT_GROUP for group in found):
            found.append(self._new(caller.tenant, DEFAULT_GROUP))
        return sorted(
            (group for group in found if caller.sees_group(group.name)),
            key=lambda group: group.name,
        )

    async def get(self, caller: Caller, name: str) -> Group:
        """A group."""
        await self._rules.look()
        return self._get(caller, name)

    async def put(
        self, caller: Caller, name: str, body: PutGroup, *, must_be_new: bool = False
    ) -> tuple[Group, bool]:
        """Make a group, or change it; tells whether it is new."""
        if not caller.sees_group(name):
            raise NotFound("group not found")
        await self._rules.look()
        old = self._rules.group(caller.tenant, name)
        if must_be_new and (old is not None or name == DEFAULT_GROUP):
            raise Conflict(f"name: there is a group '{name}' already")
        kept = self._kept(caller, name)
        is_new = old is None and name != DEFAULT_GROUP
        if old is None:
            old = self._new(caller.tenant, name)
            if body.num_shards not in {UNSET, old.num_shards}:
                if name == DEFAULT_GROUP:  # timers are made in it without asking for its record
                    raise InvalidRequest(
                        f"num_shards: is {old.num_shards} in the default group, as in the database"
                    )
                old = await self._with_shards(old, int(body.num_shards or 0))
        elif body.num_shards not in {UNSET, old.num_shards}:
            raise InvalidRequest(f"num_shards: is {old.num_shards} for ever in this group")
        new = changed(old, body, self._clock.now(), self._sender)
        if body.credential is not UNSET or body.on_failure is not UNSET:
            check_defaults(self._rules, new)
        await self._put(caller, name, kept, new)
        await self._note(caller, "group.create" if is_new else "group.update", new)
        return new, is_new

    async def pause(self, caller: Caller, name: str) -> tuple[Group, bool]:
        """Start nothing of a group until it is resumed.

        Also tells whether all nodes are known to obey. Until then one may still start timers.
        """
        group = await self.get(caller, name)
        if group.is_paused:
            # Whoever paused it may have failed before the others could hear of it.
            await self._rules.begin_revision(self._rules.groups)
        else:
            if group.resuming is not None:
                raise Conflict("group: it is being resumed just now; try again in a moment")
            now = self._clock.now()
            kept = self._kept(caller, name)
            group = replace(group, paused_at=now, resumed_at=None, updated_at=now)
            await self._put(caller, name, kept, group)
        await self._note(caller, "group.pause", group)
        return group, await self.until_all_know()

    async def resumed(self, caller: Caller, name: str, action: str) -> tuple[Group, bool]:
        """Start timers of a group again; what fell due meanwhile is left to an action.

        Also tells whether all nodes are known to obey: only then may the action begin.
        """
        group = await self.get(caller, name)
        if not group.is_paused:
            raise Conflict("group: it is not paused")
        now = self._clock.now()
        kept = self._kept(caller, name)
        group = replace(group, resumed_at=now, resuming=action, updated_at=now)
        await self._put(caller, name, kept, group)
        await self._note(caller, "group.resume", group, details={"on_resume": group.on_resume})
        return group, await self.until_all_know()

    async def has_been_resumed(self, tenant: str, name: str, action: str) -> None:
        """Note that the action has seen to all that fell due while the group was paused."""
        while True:
            await self._rules.look()
            kept = self._rules.groups.kept(name_of(tenant, name))
            if kept is None or kept.document.resuming != action:
                return
            new = replace(kept.document, resuming=None)
            if await self._rules.put(self._rules.groups, name_of(tenant, name), kept, new):
                return

    async def delete(self, caller: Caller, name: str, *, created_at: Millis | None = None) -> None:
        """Take a group away in which nothing is waiting any more; if asked, none made later."""
        group = await self.get(caller, name)
        if created_at not in {None, group.created_at}:
            raise NotFound("group not found")
        if name == DEFAULT_GROUP:
            raise Conflict("group: the default group is always there")
        now = self._clock.now()
        kept = self._kept(caller, name)
        gone = replace(group, deleted_at=now, updated_at=now, leaving_since=None)
        await self._put(caller, name, kept, gone)
        await forget_group(self._rules, gone)
        await self._note(caller, "group.delete", group)

    async def mark(self, caller: Caller, name: str) -> Millis:
        """Mark a group that is to be deleted, if nothing of it is to come when all know of it.

        Until then it is what it was: paused or not, and timers are made in it as ever. The answer
        is the mark. It is set anew if there is one: whoever set that one is stopped by it.
        """
        group = await self.get(caller, name)
        if name == DEFAULT_GROUP:
            raise Conflict("group: the default group is always there")
        now = self._clock.now()
        mark = now if group.leaving_since is None else max(now, group.leaving_since + 1)
        await self._put(caller, name, self._kept(caller, name), replace(group, leaving_since=mark))
        return mark

    async def until_all_heed(self) -> None:
        """Wait until no node makes a timer without looking for marks; Unavailable: too long.

        Whoever begins to make one when its node knows of a mark takes that away first. Those that
        had begun before are under way still: they are waited for.
        """
        watch = Watch(self._store, self._clock)
        if await watch.until_all_obey(self._rules.revision):
            revision = await self._rules.begin_revision(self._rules.tenants)
            if await watch.until_all_make_by(revision):
                return
        raise Unavailable(
            "group: not every node has confirmed in time that it knows of the deletion; nothing "
            "was deleted, try again"
        )

    async def delete_marked(self, caller: Caller, name: str, mark: Millis) -> None:
        """Take a group away that nobody has made a timer in since it was marked."""
        now = self._clock.now()
        gone = await self._change_marked(
            caller, name, mark, deleted_at=now, updated_at=now, leaving_since=None
        )
        if gone is None:
            raise Conflict(
                "group: somebody makes a timer in it just now, or is deleting it as well; look at "
                "it again"
            )
        await forget_group(self._rules, gone)
        await self._note(caller, "group.delete", gone)

    async def unmark(self, caller: Caller, name: str, mark: Millis) -> None:
        """Take a mark back; one that somebody else has set stays."""
        await self._change_marked(caller, name, mark, leaving_since=None)

    async def until_all_know(self) -> bool:
        """Wait until every node knows of all that was changed here; False: that takes too long."""
        return await Watch(self._store, self._clock).until_all_obey(self._rules.revision)

    async def is_kept(self, caller: Caller, name: str) -> bool:
        """Tell whether a group is there for a timer; nobody deletes it who was about to."""
        while group := self._rules.group(caller.tenant, name):
            if group.leaving_since is None:
                return True
            await self.unmark(caller, name, group.leaving_since)
        return False

    # Inside -----------------------------------------------------------------------------------

    async def _change_marked(
        self, caller: Caller, name: str, mark: Millis, **changes: Millis | None
    ) -> Group | None:
        """Change a group as it is by now; None: it does not have this mark any more."""
        while True:
            await self._rules.look()
            kept = self._kept(caller, name)
            if kept is None or kept.document.leaving_since != mark:
                return None
            new = replace(kept.document, **changes)
            if await self._rules.put(self._rules.groups, kept.record.name, kept, new):
                return new

    def _get(self, caller: Caller, name: str) -> Group:
        if not caller.sees_group(name):
            raise NotFound("group not found")
        group = self._rules.group(caller.tenant, name)
        if group is None and name == DEFAULT_GROUP:
            return self._new(caller.tenant, name)
        if group is None:
            raise NotFound("group not found")
        return group

    def _new(self, tenant: str, name: str) -> Group:
        """A group as it is made; one that was there before keeps its number of shards."""
        now = self._clock.now()
        before = self._rules.groups.find(name_of(tenant, name))
        return Group(
            tenant=tenant,
            name=name,
            num_shards=self._layout.num_shards if before is None else before.num_shards,
            created_at=now,
            updated_at=now,
        )

    async def _with_shards(self, group: Group, num_shards: int) -> Group:
        """A new group with a number of shards of its own, if nothing lies elsewhere already."""
        if self._rules.groups.find(name_of(group.tenant, group.name)) is not None:
            raise InvalidRequest(
                f"num_shards: there was a group '{group.name}' before; its name keeps its "
                f"{group.num_shards} shards for ever"
            )
        if await self._has_timers(group):
            raise InvalidRequest(
                f"num_shards: there are timers in the group '{group.name}' already, on the "
                f"{group.num_shards} shards of this database; leave it out"
            )
        return replace(group, num_shards=num_shards)

    async def _has_timers(self, group: Group) -> bool:
        """Tell whether there are timers of a group that nobody has made: an older version did."""
        try:
            return await has_any(self._store.search, Query(tenant=group.tenant, group=group.name))
        except TimeoutError:
            raise Unavailable(
                "num_shards: there are so many timers that it would take too long to see whether "
                "some of them are in this group; leave it out, or choose another name"
            ) from None

    def _kept(self, caller: Caller, name: str) -> Kept[Group] | None:
        return self._rules.groups.kept(name_of(caller.tenant, name))

    async def _put(self, caller: Caller, name: str, old: Kept[Group] | None, group: Group) -> None:
        is_new = old is None or old.document.deleted_at is not None
        if is_new and name != DEFAULT_GROUP:  # that one is there without having been made
            is_put = await self._put_new(old, group)
        else:
            key = name_of(caller.tenant, name)
            is_put = await self._rules.put(self._rules.groups, key, old, group)
        if not is_put:
            raise Conflict("group: somebody else has changed it meanwhile; look at it again")

    async def _put_new(self, old: Kept[Group] | None, group: Group) -> bool:
        """Write a group that was not there, if there is room for it; tells whether it was."""
        with self._newcomers.coming(group.tenant, group.name) as others:
            self._check_room(group.tenant, others)
            key = name_of(group.tenant, group.name)
            return await self._rules.put(self._rules.groups, key, old, group)

    def _check_room(self, tenant: str, coming: frozenset[str]) -> None:
        """Refuse another group where there are many, or many names that were used once."""
        mine = [each for each in self._rules.groups if each.tenant == tenant]
        if len(coming | {each.name for each in mine if each.deleted_at is None}) >= MOST_GROUPS:
            raise Conflict(f"group: a tenant has at most {MOST_GROUPS} groups; delete some")
        if len(coming | {each.name for each in mine}) >= MOST_NAMES:
            raise Conflict(f"group: a tenant has at most {MOST_NAMES} names of groups, ever")

    async def _note(
        self, caller: Caller, action: str, group: Group, details: dict[str, object] | None = None
    ) -> None:
        await self._audit.note(
            caller, action, "group", group.name, group=group.name, details=details
        )


def _gives_the_same(group: Group, other: Group) -> bool:
    """Tell whether a timer is the same in both, and is let into both alike."""
    mine, others = ((each.num_shards, each.defaults, each.quotas) for each in (group, other))
    return mine == others
