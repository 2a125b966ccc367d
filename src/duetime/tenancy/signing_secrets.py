"""What can be done with signing secrets: made and shown once, listed, rotated and revoked."""

from msgspec import UNSET
from msgspec.structs import replace

from duetime.auditing import Audit
from duetime.clock import Clock, Millis, to_rfc3339
from duetime.errors import Conflict, Forbidden, InvalidRequest, NotFound, Unauthorized
from duetime.requests import to_millis
from duetime.tenancy import signing_secret
from duetime.tenancy.caller import Caller
from duetime.tenancy.ends import asked_end
from duetime.tenancy.groups import Groups
from duetime.tenancy.newcomers import Newcomers
from duetime.tenancy.orphans import forget_orphans
from duetime.tenancy.requests import CreateSigningSecret, RotateSigningSecret
from duetime.tenancy.rules import Rules
from duetime.tenancy.signing_secret import Owner, SigningSecret, group_since
from duetime.vault import Vault
from duetime.webhooks import decode_secret, encode_secret

MOST_ACTIVE = 8  # of one group, or of one tenant beside its groups: each is a signature of its own
MOST_ENDED = 16  # that are kept to be shown
ENDED_FOR: Millis = 30 * 86_400_000  # before it is dropped

Made = tuple[SigningSecret, str | None]  # with its text, unless its maker has brought it


class SigningSecrets:
    """The use cases on signing secrets."""

    def __init__(
        self, rules: Rules, groups: Groups, vault: Vault, clock: Clock, audit: Audit
    ) -> None:
        self._rules = rules
        self._groups = groups
        self._vault = vault
        self._clock = clock
        self._audit = audit
        self._newcomers = Newcomers()

    async def create(self, caller: Caller, body: CreateSigningSecret) -> Made:
        """Make a secret; its text is in the answer, and nowhere else ever again."""
        _check_owner(caller, body.group)
        now = self._clock.now()
        expires_at = asked_end(body.expires_at, body.expires_in, now)
        since = None
        if body.group is None:
            await self._rules.look()
        else:
            since = group_since(await self._groups.get(caller, body.group))
        secret = SigningSecret(
            id=signing_secret.new_id(),
            tenant=caller.tenant,
            group=body.group,
            group_since=since,
            sealed="",
            fingerprint="",
            created_at=now,
            created_by=caller.name,
            expires_at=expires_at,
        )
        return await self._make(caller, "secret.create", secret, body.secret)

    async def list(self, caller: Caller, group: str | None = None) -> list[SigningSecret]:
        """The secrets of a tenant with those of its groups, or those of one group; newest first."""
        await self._rules.look()
        found = [
            each
            for each in self._rules.signing_secrets
            if self._sees(caller, each) and (group is None or each.group == group)
        ]
        found.sort(key=lambda secret: (-secret.created_at, secret.id))
        return found

    async def rotate(self, caller: Caller, id_: str, body: RotateSigningSecret) -> Made:
        """Make another secret for the same; the old one ends after a while."""
        old = await self._find(caller, id_)
        kept = self._rules.signing_secrets.kept(id_)  # this one and no later one
        now = self._clock.now()
        ends_at = now + to_millis(body.valid_for, "valid_for")
        if not old.is_active(now):
            raise Conflict("signing secret: it has ended; make a new one")
        end = old.end_without_rotation
        secret = replace(
            old,
            id=signing_secret.new_id(),
            created_at=max(now, old.created_at + 1),  # it is the newer one, whatever clocks say
            created_by=caller.name,
            expires_at=end,
            end_before_rotation=UNSET,
        )
        told: dict[str, object] = {"rotated": old.id, "valid_until": to_rfc3339(ends_at)}
        made = await self._make(caller, "secret.rotate", secret, body.secret, told)
        if old.expires_at is None or ends_at < old.expires_at:
            ending = replace(old, expires_at=ends_at, end_before_rotation=end)
            # One that somebody has revoked or changed meanwhile is as they want it.
            await self._rules.put(self._rules.signing_secrets, old.id, kept, ending)
        return made

    async def revoke(self, caller: Caller, id_: str) -> None:
        """End a secret, on all nodes within seconds."""
        shelf = self._rules.signing_secrets
        # In two steps: who repeats this after a crash between them finds it still to be done.
        while (secret := await self._find(caller, id_)).revoked_at is None:
            revoked = replace(secret, revoked_at=self._clock.now())
            if await self._rules.put(shelf, id_, shelf.kept(id_), revoked):
                break
        await self._note(caller, "secret.revoke", secret)
        while (kept := shelf.kept(id_)) is not None:
            await self._rules.put(shelf, id_, kept, None)

    async def _make(
        self,
        caller: Caller,
        action: str,
        secret: SigningSecret,
        brought: str | None,
        details: dict[str, object] | None = None,
    ) -> Made:
        if problem := self._vault.problem:
            raise Conflict(f"signing secret: {problem}")
        key = signing_secret.new_key() if brought is None else _decoded(brought)
        secret = secret.sealed_by(self._vault, key)
        with self._newcomers.coming(_place(secret.owner), secret.id) as others:
            now = self._clock.now()
            self._check_room(secret, others, now)
            await self._drop_ended(secret.owner, now)
            is_put = await self._rules.put(self._rules.signing_secrets, secret.id, None, secret)
        if not is_put:
            raise Conflict("signing secret: try again")  # another has the same id
        try:
            self._check_still(caller, secret)
        except (NotFound, Unauthorized):
            # Its group is gone, or who asks has ended, since a moment ago: nobody gets to know it.
            shelf = self._rules.signing_secrets
            if (kept := shelf.kept(secret.id)) is not None:
                await self._rules.put(shelf, secret.id, kept, None)
            raise
        await self._note(caller, action, secret, details)
        return secret, encode_secret(key) if brought is None else None

    def _check_room(self, secret: SigningSecret, coming: frozenset[str], now: Millis) -> None:
        mine = self._rules.secrets_of(secret.owner)
        active = {each.id: each.fingerprint for each in mine if each.is_active(now)}
        if len(coming | active.keys()) >= MOST_ACTIVE:
            raise Conflict(f"signing secret: at most {MOST_ACTIVE} are active at once; revoke some")
        if secret.fingerprint in active.values():
            raise Conflict("secret: it is one of the active ones already")

    def _check_still(self, caller: Caller, secret: SigningSecret) -> None:
        if secret.id not in {each.id for each in self._rules.secrets_of(secret.owner)}:
            raise NotFound("group not found")
        key = None if caller.key is None else self._rules.keys.find(caller.key)
        if caller.key is not None and (key is None or not key.is_valid(self._clock.now())):
            raise Unauthorized("unauthorized")

    async def _drop_ended(self, owner: Owner, now: Millis) -> None:
        """Drop what ended long ago, or is too much, and what groups have left that are gone."""
        shelf = self._rules.signing_secrets
        ended = sorted(
            (each.expires_at, each.id)
            for each in self._rules.secrets_of(owner)
            if each.expires_at is not None and each.expires_at <= now
        )
        dropped = [
            id_
            for place, (ended_at, id_) in enumerate(ended)
            if place < len(ended) - MOST_ENDED or ended_at + ENDED_FOR <= now
        ]
        if dropped:
            await self._rules.put_all(shelf, [(id_, shelf.kept(id_), None) for id_ in dropped])
        await forget_orphans(self._rules, owner[0])

    async def _find(self, caller: Caller, id_: str) -> SigningSecret:
        await self._rules.look()
        secret = self._rules.signing_secrets.find(id_)
        if secret is None or not self._sees(caller, secret):
            raise NotFound("signing secret not found")
        return secret

    def _sees(self, caller: Caller, secret: SigningSecret) -> bool:
        if secret.tenant != caller.tenant or secret not in self._rules.secrets_of(secret.owner):
            return False
        return caller.groups is None if secret.group is None else caller.sees_group(secret.group)

    async def _note(
        self,
        caller: Caller,
        action: str,
        secret: SigningSecret,
        details: dict[str, object] | None = None,
    ) -> None:
        about: dict[str, object] = {"fingerprint": secret.fingerprint, **(details or {})}
        await self._audit.note(
            caller, action, "signing_secret", secret.id, group=secret.group, details=about
        )


def _check_owner(caller: Caller, group: str | None) -> None:
    if group is not None:
        caller.check_group(group)
    elif caller.groups is not None:
        raise Forbidden("group: a key that is for some groups makes secrets for these only")


def _decoded(text: str) -> bytes:
    try:
        return decode_secret(text)
    except ValueError as error:
        raise InvalidRequest(f"secret: {error}") from None


def _place(owner: Owner) -> str:
    tenant, group = owner
    return f"{tenant}/{group or ''}"
