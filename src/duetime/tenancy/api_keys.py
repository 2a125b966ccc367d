"""What can be done with keys: made, shown without their secret, rotated and revoked."""

from msgspec.structs import replace

from duetime.auditing import Audit
from duetime.clock import Clock, Millis, to_rfc3339
from duetime.errors import Conflict, Forbidden, InvalidRequest, NotFound
from duetime.requests import to_millis, to_time
from duetime.tenancy import api_key
from duetime.tenancy.api_key import ApiKey
from duetime.tenancy.caller import Caller
from duetime.tenancy.requests import CreateKey, RotateKey
from duetime.tenancy.role import Role
from duetime.tenancy.rules import Rules
from duetime.tenancy.tenants import Tenants
from duetime.tenancy.uses import Uses

MOST_KEYS = 1_000  # of one tenant


class ApiKeys:
    """The use cases on keys."""

    def __init__(
        self, rules: Rules, tenants: Tenants, uses: Uses, clock: Clock, audit: Audit
    ) -> None:
        self._rules = rules
        self._tenants = tenants
        self._uses = uses
        self._clock = clock
        self._audit = audit

    async def create(self, caller: Caller, tenant: str, body: CreateKey) -> tuple[ApiKey, str]:
        """Make a key; its text is in the answer, and nowhere else ever again."""
        await self._tenants.get(caller, tenant)
        now = self._clock.now()
        role = Role(body.role)
        groups = None if body.groups is None else frozenset(body.groups)
        if caller.groups is not None and (groups is None or not groups <= caller.groups):
            raise Forbidden("groups: a key that is for some groups makes keys for these only")
        return await self._make(
            caller,
            "key.create",
            ApiKey(
                id=api_key.new_id(),
                tenant=tenant,
                name=body.name,
                role=role,
                groups=groups,
                digest="",
                created_at=now,
                created_by=caller.name,
                expires_at=_expiry(body, now),
            ),
        )

    async def list(self, caller: Caller, tenant: str) -> list[tuple[ApiKey, Millis | None]]:
        """The keys of a tenant, oldest first, with when each was last used."""
        await self._tenants.get(caller, tenant)
        uses = await self._uses.of(tenant)
        mine = [key for key in self._rules.keys if self._sees(caller, tenant, key)]
        mine.sort(key=lambda key: (key.created_at, key.id))
        return [(key, uses.get(key.id)) for key in mine]

    async def get(self, caller: Caller, tenant: str, id_: str) -> tuple[ApiKey, Millis | None]:
        """A key of a tenant, with when it was last used."""
        key = await self._find(caller, tenant, id_)
        return key, (await self._uses.of(tenant)).get(key.id)

    async def rotate(
        self, caller: Caller, tenant: str, id_: str, body: RotateKey
    ) -> tuple[ApiKey, str]:
        """Make another key that is good for the same; the old one ends after a while."""
        old = await self._find(caller, tenant, id_)
        now = self._clock.now()
        ends_at = now + to_millis(body.valid_for, "valid_for")
        if not old.is_valid(now):
            raise Conflict("key: it has expired; make a new one")
        kept = self._rules.keys.kept(old.id)
        made = await self._make(
            caller,
            "key.rotate",
            replace(old, id=api_key.new_id(), digest="", created_at=now, created_by=caller.name),
            details={"rotated": old.id, "valid_until": to_rfc3339(ends_at)},
        )
        if old.expires_at is None or ends_at < old.expires_at:
            ending = replace(old, expires_at=ends_at)
            # One that somebody has revoked or changed meanwhile is as they want it.
            await self._rules.put(self._rules.keys, old.id, kept, ending)
        return made

    async def revoke(self, caller: Caller, tenant: str, id_: str) -> None:
        """End a key, on all nodes within seconds."""
        key = await self._find(caller, tenant, id_)
        rules = self._rules
        # In two steps: who repeats this after a crash between them finds it still to be done.
        kept = rules.keys.kept(id_)
        if key.revoked_at is None:
            revoked = replace(key, revoked_at=self._clock.now())
            if not await rules.put(rules.keys, id_, kept, revoked):
                raise Conflict("key: somebody else has changed it meanwhile; look at it again")
        await self._note(caller, "key.revoke", key)
        await self._uses.forget(tenant, id_)
        await rules.put(rules.keys, id_, rules.keys.kept(id_), None)

    async def _make(
        self, caller: Caller, action: str, key: ApiKey, details: dict[str, object] | None = None
    ) -> tuple[ApiKey, str]:
        if sum(each.tenant == key.tenant for each in self._rules.keys) >= MOST_KEYS:
            raise Conflict(f"key: a tenant has at most {MOST_KEYS} keys; revoke some")
        text = api_key.new_text(key.id)
        key = replace(key, digest=api_key.digest_of(text.encode()))
        if not await self._rules.put(self._rules.keys, key.id, None, key):
            raise Conflict("key: try again")  # another has the same id: once in the life of a star
        await self._tenants.get(caller, key.tenant)  # it may be going just now: no key opens it
        await self._note(caller, action, key, details)
        return key, text

    async def _find(self, caller: Caller, tenant: str, id_: str) -> ApiKey:
        await self._tenants.get(caller, tenant)
        key = self._rules.keys.find(id_)
        if key is None or not self._sees(caller, tenant, key):
            raise NotFound("key not found")
        return key

    def _sees(self, caller: Caller, tenant: str, key: ApiKey) -> bool:
        if key.tenant != tenant:
            return False
        return caller.groups is None or (key.groups is not None and key.groups <= caller.groups)

    async def _note(
        self, caller: Caller, action: str, key: ApiKey, details: dict[str, object] | None = None
    ) -> None:
        about: dict[str, object] = {"name": key.name, "role": key.role, **(details or {})}
        mine = replace(caller, tenant=key.tenant)
        await self._audit.note(mine, action, "key", key.id, details=about)


def _expiry(body: CreateKey, now: Millis) -> Millis | None:
    if body.expires_at is not None and body.expires_in is not None:
        raise InvalidRequest("expires_in: cannot be given together with expires_at")
    if body.expires_in is not None:
        return now + to_millis(body.expires_in, "expires_in")
    if body.expires_at is None:
        return None
    at = to_time(body.expires_at, "expires_at")
    if at <= now:
        raise InvalidRequest("expires_at: must be in the future")
    return at
