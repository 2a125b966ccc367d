"""What is done with a group and with its timers at once: it is resumed, or deleted."""

from contextlib import suppress

from msgspec.structs import replace

from duetime.bulk.action import Action, Emptying
from duetime.bulk.actions import Actions
from duetime.bulk.resuming import begun
from duetime.clock import Clock
from duetime.errors import Conflict, DuetimeError, NotFound, StoreError, Unavailable
from duetime.searching import EVERYTHING, Filter, Part, has_any, search
from duetime.stores import Page, Query, Store
from duetime.tenancy.caller import Caller
from duetime.tenancy.group import Group
from duetime.tenancy.groups import Groups
from duetime.timer import DEFAULT_GROUP, FINISHED, Status

TO_COME = (Status.PENDING, Status.PAUSED, Status.EXECUTING)
CANCELABLE = (Status.PENDING, Status.PAUSED)
PATIENCE = 5.0  # seconds that a request waits for the timers of a group to be canceled


class GroupActions:
    """The use cases on groups with their timers."""

    def __init__(self, store: Store, clock: Clock, groups: Groups, actions: Actions) -> None:
        self._store = store
        self._clock = clock
        self._groups = groups
        self._actions = actions

    async def delete(self, caller: Caller, name: str, *, cancel: bool) -> Action | None:
        """Take a group away; the answer is the action that will, if that takes longer."""
        group = await self._groups.get(caller, name)
        if name == DEFAULT_GROUP:
            raise Conflict("group: the default group is always there")
        if cancel:
            return await self._cancel_and_delete(caller, group)
        await self._check_empty(group)
        mark = await self._groups.mark(caller, name)
        try:
            # Until every node knows of the mark, timers are created in it behind our back.
            await self._groups.until_all_heed()
            await self._check_empty(group)
            await self._groups.delete_marked(caller, name, mark)
        except DuetimeError:
            with suppress(StoreError):  # a mark that stays does no harm
                await self._groups.unmark(caller, name, mark)
            raise
        return None

    async def resume(self, caller: Caller, name: str) -> Group:
        """Start timers of a group again, and see to what fell due meanwhile by its rule."""
        group = await self._groups.get(caller, name)
        if not group.is_paused:
            raise Conflict("group: it is not paused")
        # First of all the action: should this node die, others find it and go on.
        action = self._actions.new(caller, "let go", EVERYTHING, "prepared")
        action = replace(action, groups=(name,))
        record = await self._actions.start(action)
        try:
            group, _ = await self._groups.resumed(caller, name, action.id)
        except (Conflict, NotFound):
            # Nothing was written. After any other error nobody knows that, and the clerk finds out.
            with suppress(StoreError):  # then the clerk drops it
                await self._actions.drop(action, record)
            raise
        # If not all nodes are known to obey by now, some never will: what these put to sleep after
        # this is found when it wakes by itself.
        await self._actions.let_begin(begun(action, group, self._clock.now()), record)
        return group

    async def _cancel_and_delete(self, caller: Caller, group: Group) -> Action | None:
        wanted = Filter(statuses=CANCELABLE, groups=(group.name,))
        action = self._actions.new(caller, "cancel", wanted)
        emptying = Emptying(group=group.name, created_at=group.created_at)
        action = replace(action, groups=(group.name,), emptying=emptying)
        await self._actions.start(action)
        # Whoever looks while it is under way must find who asked; that the group is deleted is told
        # when it is.
        words: dict[str, object] = {"status": CANCELABLE, "group": group.name}
        await self._actions.note_create(caller, action, words, by="the deletion of its group")
        action = await self._actions.awaited(action, PATIENCE)
        return None if action.state == "done" else action

    async def _check_empty(self, group: Group) -> None:
        """Refuse to delete a group of which timers are still to come."""
        try:
            waiting = await self._waiting(group)
        except TimeoutError:
            raise Unavailable(
                "group: there are so many timers that it would take too long to see whether some "
                "of them are in this group; cancel=true goes through them in the background"
            ) from None
        if waiting:
            raise Conflict(
                f"group: {waiting} of its timers are still to come; cancel=true cancels them"
            )

    async def _waiting(self, group: Group) -> str | None:
        """How many timers of a group are still to come, in words.

        Each is looked at once, whatever its status is: one that moves from one status to another
        between two questions would be found by neither.
        """
        if not self._store.traits.counts:
            query = Query(tenant=group.tenant, group=group.name)
            return "some" if await has_any(self._to_come, query) else None
        counts = await self._store.count(group.tenant)
        total = sum(
            each.timers
            for each in counts
            if each.group == group.name and each.status not in FINISHED
        )
        return str(total) if total else None

    async def _to_come(self, query: Query) -> Page:
        groups = None if query.group is None else (query.group,)
        wanted = Filter(statuses=TO_COME, groups=groups)
        part = Part(limit=query.limit, after=query.after)
        return await search(self._store.search, query.tenant, wanted, part)
