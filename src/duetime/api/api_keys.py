"""The keys resource, below each tenant: a key is shown once, and never again."""

from typing import Annotated

import msgspec
from msgspec import Meta

from duetime.api.envelope import Reply
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.views import Instant, instant
from duetime.clock import Millis, to_rfc3339
from duetime.service import Service
from duetime.tenancy.api_key import ApiKey
from duetime.tenancy.requests import CreateKey, RotateKey
from duetime.tenancy.role import Role

PATH = "/tenants/{tenant}/keys"


class KeyView(msgspec.Struct, kw_only=True):
    """A key, without the key itself."""

    id: str
    tenant: str
    name: str
    role: Role
    groups: Annotated[
        list[str] | None, Meta(description="The only groups that there are for it; null: all.")
    ]
    prefix: Annotated[str, Meta(description="How the key begins: safe to show.")]
    created_at: Instant
    created_by: Annotated[str, Meta(description="The name of the key that made it.")]
    expires_at: Instant | None
    last_used_at: Annotated[
        Instant | None, Meta(description="About a minute behind; null: never, as far as is known.")
    ]


class NewKeyView(KeyView):
    """A key that was just made."""

    key: Annotated[str, Meta(description="The key. Keep it: it is never shown again.")]


class KeyListView(msgspec.Struct):
    """The keys of a tenant, oldest first."""

    keys: list[KeyView]


class RevokedView(msgspec.Struct):
    """A key that opens nothing any more."""

    id: str


class ApiKeys:
    """The operations on keys."""

    def __init__(self, service: Service) -> None:
        self._keys = service.keys

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="POST",
                path=PATH,
                handler=self.create,
                role=Role.ADMIN,
                summary="Create a key",
                tag="Keys",
                body=CreateKey,
                answer=NewKeyView,
                success=(201,),
                failures=(400, 404, 409, 500, 503),
            ),
            Operation(
                method="GET",
                path=PATH,
                handler=self.list,
                role=Role.ADMIN,
                summary="List the keys of a tenant",
                tag="Keys",
                answer=KeyListView,
                failures=(404, 500, 503),
            ),
            Operation(
                method="GET",
                path=f"{PATH}/{{key}}",
                handler=self.get,
                role=Role.ADMIN,
                summary="Get a key",
                tag="Keys",
                answer=KeyView,
                failures=(404, 500, 503),
            ),
            Operation(
                method="POST",
                path=f"{PATH}/{{key}}/rotate",
                handler=self.rotate,
                role=Role.ADMIN,
                summary="Rotate a key",
                tag="Keys",
                body=RotateKey,
                is_body_optional=True,
                answer=NewKeyView,
                success=(201,),
                failures=(400, 404, 409, 500, 503),
            ),
            Operation(
                method="DELETE",
                path=f"{PATH}/{{key}}",
                handler=self.revoke,
                role=Role.ADMIN,
                summary="Revoke a key",
                tag="Keys",
                answer=RevokedView,
                failures=(404, 500, 503),
            ),
        ]

    async def create(self, request: Request) -> Reply:
        tenant = request.path_params["tenant"]
        key, text = await self._keys.create(request.caller, tenant, request.decode(CreateKey))
        return Reply(201, "key created; it is shown only now", _new_view(key, text))

    async def list(self, request: Request) -> Reply:
        keys = await self._keys.list(request.caller, request.path_params["tenant"])
        return Reply(200, "success", KeyListView([_view(key, used) for key, used in keys]))

    async def get(self, request: Request) -> Reply:
        return Reply(200, "success", _view(*await self._keys.get(request.caller, *_which(request))))

    async def rotate(self, request: Request) -> Reply:
        body = request.decode(RotateKey) if request.body.strip() else RotateKey()
        key, text = await self._keys.rotate(request.caller, *_which(request), body)
        return Reply(201, "key rotated; the new one is shown only now", _new_view(key, text))

    async def revoke(self, request: Request) -> Reply:
        tenant, id_ = _which(request)
        await self._keys.revoke(request.caller, tenant, id_)
        return Reply(200, "key revoked", RevokedView(id_))


def _which(request: Request) -> tuple[str, str]:
    return request.path_params["tenant"], request.path_params["key"]


def _view(key: ApiKey, last_used_at: Millis | None) -> KeyView:
    return KeyView(
        id=key.id,
        tenant=key.tenant,
        name=key.name,
        role=key.role,
        groups=None if key.groups is None else sorted(key.groups),
        prefix=key.prefix,
        created_at=to_rfc3339(key.created_at),
        created_by=key.created_by,
        expires_at=instant(key.expires_at),
        last_used_at=instant(last_used_at),
    )


def _new_view(key: ApiKey, text: str) -> NewKeyView:
    return NewKeyView(**msgspec.structs.asdict(_view(key, None)), key=text)
