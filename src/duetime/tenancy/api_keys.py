"""What can be done with keys: made, shown without their secret, rotated and revoked."""

from msgspec import UNSET
from msgspec.structs import replace

from duetime.auditing import Audit
from duetime.clock import Clock, Millis, to_rfc3339
from duetime.errors import Conflict, Forbidden, NotFound, Unauthorized
from duetime.requests import to_millis
from duetime.tenancy import api_key
from duetime.tenancy.api_key import ApiKey
from duetime.tenancy.caller import Caller
from duetime.tenancy.ends import asked_end
from duetime.tenancy.key_name import check_key_name
from duetime.tenancy.newcomers import Newcomers
from duetime.tenancy.requests import CreateKey, RotateKey
from duetime.tenancy.role import Role
from duetime.tenancy.rules import Rules
from duetime.tenancy.tenants import Tenants
from duetime.tenancy.uses import Uses

MOST_KEYS = 1_000  # of one tenant, without those that have ended
MOST_ENDED = 1_000  # that one tenant keeps, so that nobody fills the memory of nodes with them
ENDED_FOR: Millis = 30 * 86_400_000  # before it is dropped
DROPPED_AT_ONCE = 100  # when a key is made


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
        self._newcomers = Newcomers()

    async def create(self, caller: Caller, tenant: str, body: CreateKey) -> tuple[ApiKey, str]:
        """Make a key; its text is in the answer, and nowhere else ever again."""
        await self._tenants.staying(caller, tenant)
        check_key_name(body.name)
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
                expires_at=self._expiry(caller, body, now),
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
        kept = self._rules.keys.kept(id_)  # this one and no later one: it may be revoked by then
        now = self._clock.now()
        ends_at = now + to_millis(body.valid_for, "valid_for")
        await self._tenants.staying(caller, tenant)
        if not old.is_valid(now):
            raise Conflict("key: it has expired; make a new one")
        end = old.end_without_rotation
        if caller.key != old.id:  # who rotates itself lasts as long as it was to last
            self._check_end(caller, end, "key")
        made = await self._make(
            caller,
            "key.rotate",
            replace(
                old,
                id=api_key.new_id(),
                digest="",
                created_at=now,
                created_by=caller.name,
                expires_at=end,
                end_before_rotation=UNSET,
            ),
            details={"rotated": old.id, "valid_until": to_rfc3339(ends_at)},
        )
        if old.expires_at is None or ends_at < old.expires_at:
            ending = replace(old, expires_at=ends_at, end_before_rotation=end)
            # One that somebody has revoked or changed meanwhile is as they want it.
            await self._rules.put(self._rules.keys, old.id, kept, ending)
        return made

    async def revoke(self, caller: Caller, tenant: str, id_: str) -> None:
        """End a key, on all nodes within seconds."""
        rules = self._rules
        # In two steps: who repeats this after a crash between them finds it still to be done.
        while (key := await self._find(caller, tenant, id_)).revoked_at is None:
            # Whoever rotates it at this moment does not save it: it is tried on what it has become.
            revoked = replace(key, revoked_at=self._clock.now())
            if await rules.put(rules.keys, id_, rules.keys.kept(id_), revoked):
                break
        await self._note(caller, "key.revoke", key)
        await self._uses.forget(tenant, id_)
        while (kept := rules.keys.kept(id_)) is not None:
            await rules.put(rules.keys, id_, kept, None)

    async def _make(
        self, caller: Caller, action: str, key: ApiKey, details: dict[str, object] | None = None
    ) -> tuple[ApiKey, str]:
        text = api_key.new_text(key.id)
        key = replace(key, digest=api_key.digest_of(text.encode()))
        with self._newcomers.coming(key.tenant, key.id) as others:
            now = self._clock.now()
            self._check_room(key.tenant, others, now)
            await self._drop_ended(key.tenant, now)
            is_put = await self._rules.put(self._rules.keys, key.id, None, key)
        if not is_put:
            raise Conflict("key: try again")  # another has the same id: once in the life of a star
        try:
            await self._tenants.staying(caller, key.tenant)
            self._own(caller)
        except (Conflict, NotFound, Unauthorized):
            # The tenant is going, or who asks has ended, since a moment ago: whoever saw to that
            # must not find a key that was made after it. Nobody gets to know this one.
            await self._rules.put(self._rules.keys, key.id, self._rules.keys.kept(key.id), None)
            raise
        await self._note(caller, action, key, details)
        return key, text

    def _check_room(self, tenant: str, coming: frozenset[str], now: Millis) -> None:
        mine = {key.id for key in self._rules.keys if key.tenant == tenant and key.is_valid(now)}
        if len(coming | mine) >= MOST_KEYS:
            raise Conflict(f"key: a tenant has at most {MOST_KEYS} keys; revoke some")

    async def _drop_ended(self, tenant: str, now: Millis) -> None:
        """Drop what has ended long ago, or is too much; some of it, the oldest first."""
        ended = sorted(
            (key.expires_at, key.id)
            for key in self._rules.keys
            if key.tenant == tenant and key.expires_at is not None and key.expires_at <= now
        )
        too_many = len(ended) - MOST_ENDED
        dropped = [
            id_
            for place, (ended_at, id_) in enumerate(ended[:DROPPED_AT_ONCE])
            if place < too_many or ended_at + ENDED_FOR <= now
        ]
        if dropped:
            keys = self._rules.keys
            await self._uses.forget(tenant, *dropped)
            await self._rules.put_all(keys, [(id_, keys.kept(id_), None) for id_ in dropped])

    def _expiry(self, caller: Caller, body: CreateKey, now: Millis) -> Millis | None:
        """When a new key ends: as it is asked for, or with the key that makes it."""
        end = asked_end(body.expires_at, body.expires_in, now)
        if end is None:
            return self._end_of(caller)
        self._check_end(caller, end, "expires_at" if body.expires_in is None else "expires_in")
        return end

    def _check_end(self, caller: Caller, end: Millis | None, field: str) -> None:
        """Refuse a key that would outlive the one that makes it."""
        last = self._end_of(caller)
        if last is not None and (end is None or end > last):
            raise Forbidden(
                f"{field}: this key ends at {to_rfc3339(last)}, and makes keys that end no later"
            )

    def _end_of(self, caller: Caller) -> Millis | None:
        own = self._own(caller)
        return None if own is None else own.expires_at

    def _own(self, caller: Caller) -> ApiKey | None:
        """The key of who asks, unless it has ended since they were let in; the operator has none.

        Who must know it for sure has the rules looked at before.
        """
        if caller.key is None:
            return None
        key = self._rules.keys.find(caller.key)
        if key is None or not key.is_valid(self._clock.now()):
            raise Unauthorized("unauthorized")
        return key

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
