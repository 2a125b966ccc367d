"""Resealing: everything that an older key has sealed is sealed with the newest, to retire that key.

It is asked for by the operator, and not done by nodes themselves: while settings are rolled out,
a node may not have the newest key yet, and could not open what others have sealed with it.
"""

from collections.abc import Callable
from operator import add
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from duetime.auditing import Audit
from duetime.errors import Conflict
from duetime.tenancy.caller import Caller
from duetime.tenancy.credential import Credential
from duetime.tenancy.rules import Kept, Rules, Shelf
from duetime.tenancy.signing_secret import SigningSecret
from duetime.vault import CannotOpen, Vault

SealedT = TypeVar("SealedT", SigningSecret, Credential)


class Unreadable(NamedTuple):
    """Something that no key of this node opens."""

    kind: str
    tenant: str
    id: str


class Resealed(NamedTuple):
    """What came of it."""

    kept: int  # all that is sealed
    resealed: int
    unreadable: list[Unreadable]


class Resealing:
    """Seals what is kept anew."""

    def __init__(self, rules: Rules, vault: Vault, audit: Audit) -> None:
        self._rules = rules
        self._vault = vault
        self._audit = audit

    async def reseal(self, caller: Caller) -> Resealed:
        """Seal everything with the newest key that is not yet; who repeats it goes on with it."""
        if problem := self._vault.problem:
            raise Conflict(problem)
        await self._rules.look(anew=True)
        secrets = await self._reseal(
            self._rules.signing_secrets,
            lambda each: Unreadable("signing_secret", each.tenant, each.id),
        )
        credentials = await self._reseal(
            self._rules.credentials,
            lambda each: Unreadable("credential", each.tenant, each.name),
        )
        done = Resealed(*map(add, secrets, credentials))
        details: dict[str, object] = {
            "resealed": done.resealed,
            "unreadable": len(done.unreadable),
        }
        await self._audit.note(caller, "secret.reseal", "secret", "all", details=details)
        return done

    async def _reseal(
        self, shelf: Shelf[SealedT], unreadable_of: Callable[[SealedT], Unreadable]
    ) -> Resealed:
        resealed = 0
        while True:
            changes: list[tuple[str, Kept[SealedT], SealedT]] = []
            unreadable: list[Unreadable] = []
            for kept in shelf.all():
                document = kept.document
                if self._vault.is_newest(document.sealed):
                    continue
                try:
                    content = self._vault.open(document.sealed, document.purpose)
                except CannotOpen:
                    unreadable.append(unreadable_of(document))
                else:
                    sealed = self._vault.seal(content, document.purpose)
                    changes.append((kept.record.name, kept, replace(document, sealed=sealed)))
            if not changes:
                return Resealed(len(shelf.all()), resealed, unreadable)
            # What somebody else has changed meanwhile comes once more.
            resealed += await self._rules.put_all(shelf, changes)
