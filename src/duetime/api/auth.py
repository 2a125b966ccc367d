"""Authentication: whose key a request brings, and for which tenant it acts."""

import hmac
from contextlib import AbstractContextManager
from hashlib import sha256

from duetime.api.request import header
from duetime.clock import Clock, sleep
from duetime.errors import (
    Forbidden,
    InvalidRequest,
    NotFound,
    StoreError,
    Unauthorized,
    Unavailable,
)
from duetime.requests import LONGEST_TEXT
from duetime.tenancy import api_key
from duetime.tenancy.api_key import ApiKey
from duetime.tenancy.caller import Caller
from duetime.tenancy.role import Role
from duetime.tenancy.rules import Rules
from duetime.tenancy.tenants import check_stays
from duetime.tenancy.uses import Uses
from duetime.timer import DEFAULT_TENANT

Headers = list[tuple[bytes, bytes]]

_BEARER = b"bearer "

# The headers that say who asks.
_WHO = {b"x-api-key": "X-API-Key", b"authorization": "Authorization", b"x-tenant-id": "X-Tenant-ID"}

# A key that is not known makes a node read the store. Beyond so many in a second they wait, so many
# seconds each, before they share a read.
MOST_STRANGERS = 20
STRANGERS_WAIT = 0.25


class Authentication:
    """Knows the operator's key by its digest, and all others by what the rules say."""

    def __init__(self, operator_key: str, rules: Rules, uses: Uses, clock: Clock) -> None:
        self._digest = sha256(operator_key.encode()).digest()
        self._rules = rules
        self._uses = uses
        self._clock = clock
        self._strangers = 0
        self._strangers_since = clock.monotonic()

    async def caller_of(
        self,
        headers: Headers,
        address: str | None,
        *,
        of_deleted: bool = False,
        named_by: str = "X-Tenant-ID",
    ) -> Caller:
        """Who asks; Unauthorized if nobody that is known.

        ``of_deleted``: the operator may act for a tenant that was deleted. ``named_by``: what says
        for which tenant, where that is not the header itself.
        """
        _check_once(headers)
        presented = _presented(headers)
        tenant = _text(header(headers, b"x-tenant-id"))
        if self._is_operators(presented):
            await self._check_known(tenant, of_deleted=of_deleted)
            return Caller(
                DEFAULT_TENANT if tenant is None else tenant,
                address=address,
                correlation_id=_correlation_id(headers),
            )
        key = await self._find(presented)
        self._uses.note(key, self._clock.now())
        if tenant is not None and tenant != key.tenant:
            raise Forbidden(f"{named_by}: only the operator's key acts for other tenants")
        correlation_id = _correlation_id(headers)
        return Caller(key.tenant, key.role, key.name, key.id, key.groups, address, correlation_id)

    async def vouched_for(self, tenant: str, name: str, headers: Headers) -> Caller:
        """Who asks without a key, because somebody else has let them act for a tenant.

        NotFound if there is no such tenant. While it is being deleted it may still come to stay.
        """
        if not self._is_open(tenant):
            await self._look_for_stranger("tenant")
            if not self._is_known(tenant):
                raise NotFound("tenant not found")
            if not self._is_open(tenant):
                raise Unavailable("the tenant is being deleted; nothing was written, try again")
        correlation_id = _correlation_id(headers)
        return Caller(tenant, Role.WRITE, name, address=name, correlation_id=correlation_id)

    def check_still(self, caller: Caller) -> None:
        """Refuse a caller whose key has ended, or whose tenant is going, since they were let in.

        Only what this node knows is asked, for it is asked of every request.
        """
        if caller.key is None:  # the operator, or nobody in particular
            return
        key = self._rules.keys.find(caller.key)
        if key is None or not self._opens(key):
            raise Unauthorized("unauthorized")

    def check_stays(self, caller: Caller) -> None:
        """Refuse to make or change anything for a tenant that is going since they were let in."""
        if not self._is_open(caller.tenant):
            if not caller.is_operator:
                raise Unauthorized("unauthorized")
            if not self._is_known(caller.tenant):
                raise NotFound("tenant not found")
            check_stays(self._rules.tenants.find(caller.tenant))

    def making(self, caller: Caller) -> AbstractContextManager[None]:
        """Let a caller make something, if their tenant stays.

        Until it is made, no other node takes it that this one knows of what is new of tenants.
        """
        self.check_stays(caller)
        return self._rules.making()

    def _is_operators(self, presented: bytes) -> bool:
        """Tell whether this is the operator's key.

        Digests of equal length are compared in constant time, so that the time an answer takes
        tells nothing of the key, not even its length.
        """
        return hmac.compare_digest(sha256(presented).digest(), self._digest)

    async def _check_known(self, tenant: str | None, *, of_deleted: bool) -> None:
        if tenant is not None and not self._is_known(tenant, of_deleted=of_deleted):
            await self._rules.look()
            if not self._is_known(tenant, of_deleted=of_deleted):
                raise NotFound("tenant not found")

    def _is_known(self, tenant: str, *, of_deleted: bool = False) -> bool:
        found = self._rules.tenants.find(tenant)
        if found is None:
            return tenant == DEFAULT_TENANT
        return of_deleted or found.deleted_at is None

    def _is_open(self, tenant: str) -> bool:
        found = self._rules.tenants.find(tenant)
        if found is None:
            return tenant == DEFAULT_TENANT
        return found.deleted_at is None and not found.is_leaving

    async def _find(self, presented: bytes) -> ApiKey:
        id_ = api_key.id_in(presented)
        if id_ is None:
            raise Unauthorized("unauthorized")
        digest = api_key.digest_of(presented)
        key = self._opened(id_, digest)
        if key is None:
            # It may have just been made, on another node. This is asked whether there is such an id
            # or not, so that the time an answer takes does not tell.
            await self._look_for_stranger("key")
            key = self._opened(id_, digest)
        if key is None:
            raise Unauthorized("unauthorized")
        return key

    def _opened(self, id_: str, digest: str) -> ApiKey | None:
        """The key that this text is, as far as is known here."""
        key = self._rules.keys.find(id_)
        return None if key is None or not key.opens_with(digest) or not self._opens(key) else key

    def _opens(self, key: ApiKey) -> bool:
        # A tenant is gone, or going, before its last key is.
        return key.is_valid(self._clock.now()) and self._is_open(key.tenant)

    async def _look_for_stranger(self, what: str) -> None:
        """Look whether one that is not known was just made; of too many, only now and then."""
        now = self._clock.monotonic()
        if now >= self._strangers_since + 1:
            self._strangers, self._strangers_since = 0, now
        self._strangers += 1
        if self._strangers > MOST_STRANGERS:
            await sleep(self._clock, STRANGERS_WAIT)
        try:
            await self._rules.look()
        except StoreError:
            raise Unavailable(f"the {what} cannot be checked just now, try again") from None


def _check_once(headers: Headers) -> None:
    """Refuse a request that says twice who asks: a proxy before this may have read the other."""
    given = [name for name, _ in headers if name in _WHO]
    if len(given) > len(set(given)):
        twice = next(name for name in given if given.count(name) > 1)
        raise InvalidRequest(f"{_WHO[twice]}: is given more than once")


def _presented(headers: Headers) -> bytes:
    """The key that a request brings, in either of the two headers."""
    given = header(headers, b"x-api-key")
    if given is not None:
        return given
    bearer = header(headers, b"authorization") or b""
    return bearer[len(_BEARER) :].strip() if bearer[: len(_BEARER)].lower() == _BEARER else b""


def _correlation_id(headers: Headers) -> str | None:
    """What the audit says of the request; one that is no text is the operation's to refuse."""
    given = header(headers, b"x-correlation-id")
    return None if given is None else given.decode("utf-8", "replace")[:LONGEST_TEXT]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
