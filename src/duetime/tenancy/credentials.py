"""What can be done with credentials, and what timers may name one for which callback."""

import asyncio
from functools import lru_cache

from msgspec import UNSET, UnsetType

from duetime.auditing import Audit
from duetime.clock import Clock
from duetime.delivery import Sender
from duetime.delivery.hosts import Hosts, where
from duetime.errors import Conflict, Forbidden, InvalidRequest, NotFound
from duetime.requests import (
    CallbackBody,
    CreateTimer,
    HttpCallbackBody,
    OnFailureBody,
    UpdateTimer,
)
from duetime.tenancy.caller import Caller
from duetime.tenancy.credential import Credential, name_of
from duetime.tenancy.credential_requests import PutCredential
from duetime.tenancy.credential_settings import changed
from duetime.tenancy.group import Group
from duetime.tenancy.newcomers import Newcomers
from duetime.tenancy.rules import Kept, Rules
from duetime.timer import Callback, HttpCallback
from duetime.vault import Vault

MOST_CREDENTIALS = 100  # of one tenant: every node has them in memory, and reads them anew

_OF_TOLD = "on_failure.callback.credential"


class Credentials:
    """The use cases on credentials."""

    def __init__(
        self, rules: Rules, sender: Sender, clock: Clock, audit: Audit, vault: Vault
    ) -> None:
        self._rules = rules
        self._sender = sender
        self._clock = clock
        self._audit = audit
        self._vault = vault
        self._newcomers = Newcomers()

    # For timers -------------------------------------------------------------------------------

    async def meet(self, tenant: str, body: CreateTimer | UpdateTimer) -> bool:
        """Look for credentials that are not known here: another node may have just made them.

        Tells whether that was done: who makes many timers at once need not do it for each.
        """
        if self.knows(tenant, body):
            return False
        await self._rules.look()
        return True

    def knows(self, tenant: str, body: CreateTimer | UpdateTimer) -> bool:
        """Tell whether all credentials that a timer names are known here; most name none."""
        names = [_named(body.callback)]
        if isinstance(body.on_failure, OnFailureBody):
            names.append(_named(body.on_failure.callback))
        elif names[0] is None:
            return True
        known = self._rules.credentials
        return all(name is None or known.find(name_of(tenant, name)) is not None for name in names)

    def problem(self, tenant: str, group: str, callback: Callback) -> str | None:
        """Why a timer of this group cannot have a callback with this credential, or None."""
        name = callback.credential if isinstance(callback, HttpCallback) else None
        if name is None or not isinstance(callback, HttpCallback):
            return None
        credential = self._rules.credential(tenant, name, group)
        if credential is None:
            return f"callback.credential: {_unknown(name, group)}"
        host, is_tls = where(callback.url)
        hosts = _hosts(credential.hosts, credential.allow_http)
        if (problem := hosts.problem(host, is_tls=is_tls)) is not None:
            hint = "" if group_gives(self._rules, tenant, group) != name else "; null is none"
            return f"callback.credential: the credential '{name}' {problem}{hint}"
        for header in callback.headers:
            if header.lower() == credential.header:
                return f"callback.headers: {header} is set by the credential '{name}'"
        return None

    # For users --------------------------------------------------------------------------------

    async def list(self, caller: Caller) -> list[Credential]:
        """The credentials that there are for somebody, by name."""
        await self._rules.look()
        found = [each for each in self._rules.credentials if _sees(caller, each)]
        return sorted(found, key=lambda each: each.name)

    async def get(self, caller: Caller, name: str) -> Credential:
        """A credential, without its secret but for its seal."""
        await self._rules.look()
        return self._find(caller, name).document

    async def put(
        self, caller: Caller, name: str, body: PutCredential, *, must_be_new: bool = False
    ) -> tuple[Credential, bool]:
        """Make a credential, or change it; tells whether it is new."""
        if (problem := self._vault.problem) is not None:
            raise Conflict(f"credential: {problem}")
        await self._rules.look()
        kept = self._rules.credentials.kept(name_of(caller.tenant, name))
        if kept is not None and must_be_new:
            raise Conflict(f"name: there is a credential '{name}' already")
        old = self._new(caller, name, body) if kept is None else self._find(caller, name).document
        if body.type not in {UNSET, old.type}:
            raise InvalidRequest(f"type: is '{old.type}' for ever; delete it, and make another one")
        # Off the event loop: to read certificates takes a while.
        new = await asyncio.to_thread(
            changed, old, body, self._clock.now(), self._sender, self._vault
        )
        if caller.groups is not None and (new.groups is None or not new.groups <= caller.groups):
            raise Forbidden(
                "groups: a key that is for some groups makes credentials for these only"
            )
        await self._put(kept, new)
        await self._note(caller, "credential.create" if kept is None else "credential.update", new)
        return new, kept is None

    async def delete(self, caller: Caller, name: str) -> None:
        """Take a credential away; timers that name it fail from then on."""
        await self._rules.look()
        kept = self._find(caller, name)
        users = sorted(
            group.name
            for group in self._rules.groups
            if group.tenant == caller.tenant
            and group.deleted_at is None
            and name in given_by(group)
        )
        if users:
            raise Conflict(
                f"credential: the group '{users[0]}' gives it to its timers; change that first"
            )
        if not await self._rules.put(self._rules.credentials, kept.record.name, kept, None):
            raise _has_changed()
        await self._note(caller, "credential.delete", kept.document)

    # Inside -----------------------------------------------------------------------------------

    def _new(self, caller: Caller, name: str, body: PutCredential) -> Credential:
        if body.type is UNSET:
            raise InvalidRequest("type: required")
        now = self._clock.now()
        return Credential(
            tenant=caller.tenant,
            name=name,
            type=body.type,
            hosts=(),
            created_at=now,
            created_by=caller.name,
            updated_at=now,
        )

    def _find(self, caller: Caller, name: str) -> Kept[Credential]:
        kept = self._rules.credentials.kept(name_of(caller.tenant, name))
        if kept is None or not _sees(caller, kept.document):
            raise NotFound("credential not found")
        return kept

    async def _put(self, kept: Kept[Credential] | None, new: Credential) -> None:
        name = name_of(new.tenant, new.name)
        if kept is not None:
            is_put = await self._rules.put(self._rules.credentials, name, kept, new)
        else:
            with self._newcomers.coming(new.tenant, new.name) as others:
                mine = {each.name for each in self._rules.credentials if each.tenant == new.tenant}
                if len(others | mine) >= MOST_CREDENTIALS:
                    raise Conflict(
                        f"credential: a tenant has at most {MOST_CREDENTIALS}; delete some"
                    )
                is_put = await self._rules.put(self._rules.credentials, name, None, new)
        if not is_put:
            raise _has_changed()

    async def _note(self, caller: Caller, action: str, credential: Credential) -> None:
        groups = credential.groups or frozenset()
        await self._audit.note(
            caller,
            action,
            "credential",
            credential.name,
            group=next(iter(groups)) if len(groups) == 1 else None,
            details={"type": credential.type, "hosts": list(credential.hosts)},
        )


def _named(callback: CallbackBody | UnsetType) -> str | None:
    name = callback.credential if isinstance(callback, HttpCallbackBody) else None
    return None if name is UNSET else name


def group_gives(rules: Rules, tenant: str, group: str) -> str | None:
    """The credential that timers of a group are given, if they ask for nothing else."""
    found = rules.group(tenant, group)
    return None if found is None else found.defaults.credential


def given_by(group: Group) -> set[str]:
    """All credentials that a group gives its timers, also those who tell of their failures."""
    told = group.defaults.on_failure
    callback = None if told is None else told.callback
    of_told = callback.credential if isinstance(callback, HttpCallback) else None
    return {name for name in (group.defaults.credential, of_told) if name is not None}


def check_defaults(rules: Rules, group: Group) -> None:
    """Refuse credentials for the timers of a group that they could not have."""
    for name in sorted(given_by(group)):
        if rules.credential(group.tenant, name, group.name) is None:
            field = "credential" if name == group.defaults.credential else _OF_TOLD
            raise InvalidRequest(f"{field}: {_unknown(name, group.name)}")


@lru_cache(maxsize=1024)
def _hosts(patterns: tuple[str, ...], over_http: bool) -> Hosts:  # noqa: FBT001 - it is a key
    return Hosts(patterns, over_http=over_http)


def _unknown(name: str, group: str) -> str:
    # Whether there is one for other groups is not for those of this one to know.
    return f"there is no credential '{name}' for the group '{group}'"


def _sees(caller: Caller, credential: Credential) -> bool:
    if credential.tenant != caller.tenant:
        return False
    groups = credential.groups
    return caller.groups is None or (groups is not None and groups <= caller.groups)


def _has_changed() -> Conflict:
    return Conflict("credential: somebody else has changed it meanwhile; look at it again")
