"""The beginning of an action that was only prepared: it must be known first that it shall begin.

One with a key must not have been done already. The others wait until their group was resumed.
The group names the action that sees to what fell due while it was paused. Whatever is lost on the
way, an answer or a node, the two are brought together here: by what is stored, never by what this
node remembers.
"""

from collections.abc import Collection

from msgspec.structs import replace

from duetime.bulk.action import Action, Actor, name_of
from duetime.bulk.archive import Archive
from duetime.bulk.resuming import begun
from duetime.clock import Clock
from duetime.searching import EVERYTHING
from duetime.stores import Store
from duetime.tenancy.caller import SERVICE
from duetime.tenancy.group import Group
from duetime.tenancy.obedience import Watch
from duetime.tenancy.rules import Rules

FORGOTTEN = Actor(SERVICE)  # who asked was forgotten with the action


class Beginning:
    """Lets actions begin whose maker is gone."""

    def __init__(self, store: Store, clock: Clock, rules: Rules, archive: Archive) -> None:
        self._store = store
        self._clock = clock
        self._rules = rules
        self._archive = archive

    async def begun(self, action: Action) -> Action | None:
        """The action as it may begin; None: it has been done, or its group was not resumed."""
        if action.key is not None:
            is_done = await self._archive.has(action.tenant, action.name)
            return None if is_done else replace(action, state="running")
        await self._rules.look(anew=True)
        group = self._group_of(action)
        if group is None:
            return None
        # Whoever resumed it may have died before the others could hear of it: now they do.
        revision = await self._rules.begin_revision(self._rules.groups)
        await Watch(self._store, self._clock).until_all_obey(revision)
        return begun(action, group, self._clock.now())

    async def forgotten(self, under_way: Collection[str]) -> list[Action]:
        """The actions that groups wait for and that are not there, prepared anew.

        ``under_way`` are the names of all records of actions, read before this is asked. An action
        is written before its group names it, and the group names it no more when it is taken away:
        so it is not made twice.
        """
        if not self._waiting(under_way):
            return []
        await self._rules.look(anew=True)
        return [self._anew(group) for group in self._waiting(under_way)]

    def _waiting(self, under_way: Collection[str]) -> list[Group]:
        return [
            group
            for group in self._rules.groups
            if group.resuming is not None and name_of(group.tenant, group.resuming) not in under_way
        ]

    def _group_of(self, action: Action) -> Group | None:
        for group in self._rules.groups:
            if group.tenant == action.tenant and group.resuming == action.id:
                return group
        return None

    def _anew(self, group: Group) -> Action:
        now = self._clock.now()
        return Action(
            id=group.resuming or "",
            tenant=group.tenant,
            verb="let go",
            filter=EVERYTHING,
            groups=(group.name,),
            created_before=now,
            state="prepared",
            actor=FORGOTTEN,
            created_at=now,
            updated_at=now,
        )
