"""The conclusion of an action: what is to be done when it has ended. All of it may be repeated."""

from duetime.auditing import Audit
from duetime.bulk.action import Action
from duetime.bulk.archive import Archive
from duetime.bulk.resuming import begun
from duetime.errors import Conflict, NotFound
from duetime.tenancy.groups import Groups
from duetime.tenancy.rules import Rules

MOST_TRIES = 5  # to delete a group that others change


class Conclusion:
    """Concludes actions."""

    def __init__(self, archive: Archive, groups: Groups, rules: Rules, audit: Audit) -> None:
        self._archive = archive
        self._groups = groups
        self._rules = rules
        self._audit = audit

    async def conclude(self, action: Action) -> None:
        """Do what is to be done when an action has ended."""
        if action.resumed is not None:
            await self._groups.has_been_resumed(action.tenant, action.resumed.name, action.id)
        if action.then_delete is not None and action.state == "done":
            await self._delete_group(action, action.then_delete)
        tally = action.tally
        # Before it is filed: a line that is written twice, should this node die now, is better
        # than none.
        await self._audit.note(
            action.caller,
            "action.done",
            "action",
            action.id,
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

    async def begun(self, action: Action) -> Action | None:
        """The action that was prepared, if it shall begin though its maker is gone."""
        await self._rules.look()
        for group in self._rules.groups:
            if group.tenant == action.tenant and group.resuming == action.id:
                return begun(action, group)
        return None

    async def _delete_group(self, action: Action, name: str) -> None:
        for _ in range(MOST_TRIES):
            try:
                await self._groups.delete(action.caller, name)
            except NotFound:  # it is gone already
                return
            except Conflict:  # somebody else has changed it
                continue
            return
