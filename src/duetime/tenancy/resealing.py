"""Resealing: everything that an older key has sealed is sealed with the newest, to retire that key.

It is asked for by the operator, and not done by nodes themselves: while settings are rolled out,
a node may not have the newest key yet, and could not open what others have sealed with it.
"""

from typing import NamedTuple

from msgspec.structs import replace

from duetime.auditing import Audit
from duetime.errors import Conflict
from duetime.tenancy.caller import Caller
from duetime.tenancy.rules import Kept, Rules
from duetime.tenancy.signing_secret import SigningSecret
from duetime.vault import CannotOpen, Vault


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
        shelf = self._rules.signing_secrets
        resealed = 0
        await self._rules.look(anew=True)
        while True:
            older = [
                each for each in shelf.all() if not self._vault.is_newest(each.document.sealed)
            ]
            changes, unreadable = self._sealed_anew(older)
            if not changes:
                break
            # What somebody else has changed meanwhile comes once more.
            resealed += await self._rules.put_all(shelf, changes)
        done = Resealed(len(shelf.all()), resealed, unreadable)
        details: dict[str, object] = {"resealed": resealed, "unreadable": len(unreadable)}
        await self._audit.note(caller, "secret.reseal", "signing_secret", "all", details=details)
        return done

    def _sealed_anew(
        self, older: list[Kept[SigningSecret]]
    ) -> tuple[list[tuple[str, Kept[SigningSecret], SigningSecret]], list[Unreadable]]:
        changes, unreadable = [], []
        for kept in older:
            secret = kept.document
            try:
                key = self._vault.open(secret.sealed, secret.purpose)
            except CannotOpen:
                unreadable.append(Unreadable("signing_secret", secret.tenant, secret.id))
            else:
                sealed = self._vault.seal(key, secret.purpose)
                changes.append((kept.record.name, kept, replace(secret, sealed=sealed)))
        return changes, unreadable
