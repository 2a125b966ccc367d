"""The terms of each group, made of the rules: what its callbacks are signed with now, and what
their answers must pass.

They are asked for at every attempt, so they are kept until the rules change or a secret ends. A
secret that cannot be opened is never passed over: its callbacks wait, rather than arrive unsigned,
or signed with something that their receiver does not expect.
"""

import logging
from typing import NamedTuple

from duetime.clock import Clock, Millis
from duetime.delivery.schema import compiled
from duetime.delivery.schema_size import UnfitSchema
from duetime.delivery.terms import Check, Terms
from duetime.tenancy.rules import Rules
from duetime.tenancy.signing_secret import SigningSecret
from duetime.timer import Timer
from duetime.vault import VARIABLE, CannotOpen, Vault

_log = logging.getLogger("duetime.secrets")

MOST_KEPT = 16_384  # groups; beyond that all are worked out anew


class _Kept(NamedTuple):
    terms: Terms
    until: Millis | None  # when the next of its secrets ends


class GroupTerms:
    """Answers what the terms of a timer are."""

    def __init__(
        self, rules: Rules, vault: Vault, clock: Clock, *, installation: tuple[bytes, ...] = ()
    ) -> None:
        self._rules = rules
        self._vault = vault
        self._clock = clock
        self._installation = installation  # what signs for those who have no secrets of their own
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._edition = -1  # of the rules, by which these were made
        self._told: set[str] = set()  # sealed secrets that could not be opened, which the log has

    def __call__(self, timer: Timer) -> Terms:
        """The terms by which this timer is sent now."""
        if self._edition != self._rules.edition:
            self._kept.clear()
            self._edition = self._rules.edition
        place = timer.tenant, timer.group
        kept = self._kept.get(place)
        if kept is None or (kept.until is not None and kept.until <= self._clock.now()):
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            kept = self._kept[place] = self._make(*place)
        if timer.spec.tells_of is not None:
            # It goes to whoever is told of failures, who owes nobody what its group's receivers do.
            return kept.terms._replace(check=None)
        return kept.terms

    def _make(self, tenant: str, group: str) -> _Kept:
        secrets = self._active(tenant, group)
        check = self._check(tenant, group)
        ends = [secret.expires_at for secret in secrets if secret.expires_at is not None]
        try:
            opened = tuple(map(self._open, secrets)) if secrets else self._installation
        except CannotOpen as error:
            return _Kept(Terms(unsignable=str(error), check=check), min(ends, default=None))
        return _Kept(Terms(secrets=opened, check=check), min(ends, default=None))

    def _check(self, tenant: str, group: str) -> Check | None:
        found = self._rules.group(tenant, group)
        schema = None if found is None else found.response_schema
        if schema is None:
            return None
        try:
            return compiled(schema)
        except UnfitSchema as error:  # it was set on a node that has what this one lacks
            problem = f"this node cannot check the answer by response_schema, which {error}"
            return lambda _body: problem

    def _active(self, tenant: str, group: str) -> list[SigningSecret]:
        """Those of the group; if it has none, those of the tenant."""
        now = self._clock.now()
        for owner in ((tenant, group), (tenant, None)):
            if active := [each for each in self._rules.secrets_of(owner) if each.is_active(now)]:
                return active
        return []

    def _open(self, secret: SigningSecret) -> bytes:
        try:
            return self._vault.open(secret.sealed, secret.purpose)
        except CannotOpen as error:
            why = (
                f"the signing secret {secret.id} cannot be opened: {error}; put its key back into "
                f"{VARIABLE}, or revoke the secret"
            )
        if secret.sealed not in self._told:
            self._told.add(secret.sealed)
            whose = secret.tenant if secret.group is None else f"{secret.tenant}/{secret.group}"
            _log.error("%s: %s; until then its callbacks are not sent", whose, why)
        raise CannotOpen(why)
