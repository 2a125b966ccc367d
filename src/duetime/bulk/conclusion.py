"""The conclusion of an action: what is to be done at its end. All of it may be repeated."""

from duetime.auditing import Audit
from duetime.bulk.action import Action
from duetime.bulk.archive import Archive
from duetime.clock import Clock
from duetime.errors import Conflict, NotFound
from duetime.stores import Store
from duetime.tenancy.group import name_of
from duetime.tenancy.groups import Groups
from duetime.tenancy.obedience import do_all_make_by, do_all_obey
from duetime.tenancy.rules import Rules

MOST_TRIES = 5  # to delete a group that others change


class Conclusion:
    """Concludes actions."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        archive: Archive,
        groups: Groups,
        rules: Rules,
        audit: Audit,
    ) -> None:
        self._store = store
        self._clock = clock
        self._archive = archive
        self._groups = groups
        self._rules = rules
        self._audit = audit
        # Of the tenants, begun when all nodes knew that the group of an action is deleted.
        self._made_by: dict[str, int] = {}

    async def conclude(self, action: Action) -> None:
        """Do what is to be done when an action has ended."""
        self._made_by.pop(action.id, None)
        if action.resumed is not None:
            await self._rules.look(anew=True)
            await self._groups.has_been_resumed(action.tenant, action.resumed.name, action.id)
        tally = action.tally
        # Before it is filed: a line that is written twice, should this node die now, is better
        # than none.
        await self._audit.note(
            action.caller,
            "action.done",
            "action",
            action.id,
            group=action.group,
            details={
                "action": action.verb,
                "state": action.state,
                "dry_run": action.dry_run,
                "matched": tally.matched,
                "changed": tally.changed,
                "skipped": tally.skipped,
                "failed": tally.failed,
            },
        )
        await self._archive.put(action)
        await self._archive.tidy(action.tenant)

    async def has_lost_its_group(self, action: Action) -> bool:
        """Tell whether there is another in the place of the group that an action empties."""
        if action.emptying is None:
            return False
        await self._rules.look()
        group = self._rules.groups.find(name_of(action.tenant, action.emptying.group))
        return group is None or group.created_at != action.emptying.created_at

    async def is_deletion_known(self, action: Action) -> bool:
        """Tell whether every node knows that the group of an action is deleted.

        And whether all creates have ended that had begun before: what they have written is found by
        the pass that follows, also if their node was killed after that.
        """
        revision = 0 if action.emptying is None else action.emptying.revision
        if not await do_all_obey(self._store, self._clock, revision):
            return False
        if action.id not in self._made_by:
            self._made_by[action.id] = await self._rules.begin_revision(self._rules.tenants)
        return await do_all_make_by(self._store, self._clock, self._made_by[action.id])

    @property
    def revision(self) -> int:
        """By which nodes know of all that was changed here."""
        return self._rules.revision

    async def delete_group(self, action: Action) -> str | None:
        """Delete the group that an action has emptied; if that cannot be, the answer says why."""
        if action.emptying is None:
            return None
        name, created_at = action.emptying.group, action.emptying.created_at
        for _ in range(MOST_TRIES):
            try:
                await self._groups.delete(action.caller, name, created_at=created_at)
            except NotFound:  # it is gone already, of which not all may have heard
                await self._rules.begin_revision(self._rules.groups)
                return None
            except Conflict:  # somebody else has changed it
                continue
            return None
        return "group: others keep changing it; it stays"
