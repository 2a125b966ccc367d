"""The signing secrets resource: a secret is shown once, and never again."""

from typing import Annotated

import msgspec
from msgspec import Meta

from duetime.api.envelope import Reply
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.views import Instant, instant
from duetime.clock import to_rfc3339
from duetime.requests import GroupName
from duetime.service import Service
from duetime.tenancy.requests import CreateSigningSecret, RotateSigningSecret
from duetime.tenancy.role import Role
from duetime.tenancy.signing_secret import SigningSecret

PATH = "/signing-secrets"
_TAG = "Signing secrets"


class SigningSecretView(msgspec.Struct, kw_only=True):
    """A signing secret, without the secret itself."""

    id: str
    group: Annotated[
        str | None,
        Meta(description="Whose callbacks it signs; null: all that have none of their own."),
    ]
    fingerprint: Annotated[
        str, Meta(description="How the SHA-256 of the secret begins, in hex: safe to show.")
    ]
    is_active: Annotated[bool, Meta(description="Whether callbacks are signed with it now.")]
    created_at: Instant
    created_by: Annotated[str, Meta(description="The name of the key that made it.")]
    expires_at: Annotated[Instant | None, Meta(description="When it ends, or has ended.")]


class NewSigningSecretView(SigningSecretView):
    """A signing secret that was just made."""

    secret: Annotated[
        str | None,
        Meta(
            description="The secret. Keep it: it is never shown again. null: you have brought it."
        ),
    ]

    def __repr__(self) -> str:
        """Show no secret, wherever this is printed."""
        return f"{type(self).__name__}(...)"


class SigningSecretListView(msgspec.Struct):
    """Signing secrets, newest first."""

    signing_secrets: list[SigningSecretView]


class RevokedSecretView(msgspec.Struct):
    """A signing secret that signs nothing any more."""

    id: str


class SigningSecretFilter(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which signing secrets to list."""

    group: Annotated[
        GroupName | None, Meta(description="Those of this group; left out: all of the tenant.")
    ] = None


class SigningSecrets:
    """The operations on signing secrets."""

    def __init__(self, service: Service) -> None:
        self._secrets = service.signing_secrets
        self._clock = service.clock

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="POST",
                path=PATH,
                handler=self.create,
                makes=True,
                role=Role.ADMIN,
                summary="Create a signing secret",
                tag=_TAG,
                body=CreateSigningSecret,
                is_body_optional=True,
                answer=NewSigningSecretView,
                success=(201,),
                failures=(400, 404, 409, 500, 503),
            ),
            Operation(
                method="GET",
                path=PATH,
                handler=self.list,
                role=Role.ADMIN,
                summary="List the signing secrets",
                tag=_TAG,
                parameters=SigningSecretFilter,
                answer=SigningSecretListView,
                failures=(400, 500, 503),
            ),
            Operation(
                method="POST",
                path=f"{PATH}/{{secret}}/rotate",
                handler=self.rotate,
                makes=True,
                role=Role.ADMIN,
                summary="Rotate a signing secret",
                tag=_TAG,
                body=RotateSigningSecret,
                is_body_optional=True,
                answer=NewSigningSecretView,
                success=(201,),
                failures=(400, 404, 409, 500, 503),
            ),
            Operation(
                method="DELETE",
                path=f"{PATH}/{{secret}}",
                handler=self.revoke,
                role=Role.ADMIN,
                summary="Revoke a signing secret",
                tag=_TAG,
                answer=RevokedSecretView,
                failures=(404, 500, 503),
            ),
        ]

    async def create(self, request: Request) -> Reply:
        has_body = bool(request.body.strip())
        body = request.decode(CreateSigningSecret) if has_body else CreateSigningSecret()
        secret, text = await self._secrets.create(request.caller, body)
        return Reply(201, _told("created", text), self._new_view(secret, text))

    async def list(self, request: Request) -> Reply:
        wanted = request.parameters(SigningSecretFilter)
        found = await self._secrets.list(request.caller, wanted.group)
        return Reply(200, "success", SigningSecretListView([self._view(each) for each in found]))

    async def rotate(self, request: Request) -> Reply:
        has_body = bool(request.body.strip())
        body = request.decode(RotateSigningSecret) if has_body else RotateSigningSecret()
        secret, text = await self._secrets.rotate(request.caller, _id_in(request), body)
        return Reply(201, _told("rotated", text), self._new_view(secret, text))

    async def revoke(self, request: Request) -> Reply:
        id_ = _id_in(request)
        await self._secrets.revoke(request.caller, id_)
        return Reply(200, "signing secret revoked", RevokedSecretView(id_))

    def _view(self, secret: SigningSecret) -> SigningSecretView:
        return SigningSecretView(
            id=secret.id,
            group=secret.group,
            fingerprint=secret.fingerprint,
            is_active=secret.is_active(self._clock.now()),
            created_at=to_rfc3339(secret.created_at),
            created_by=secret.created_by,
            expires_at=instant(secret.expires_at),
        )

    def _new_view(self, secret: SigningSecret, text: str | None) -> NewSigningSecretView:
        return NewSigningSecretView(**msgspec.structs.asdict(self._view(secret)), secret=text)


def _id_in(request: Request) -> str:
    return request.path_params["secret"]


def _told(done: str, text: str | None) -> str:
    return f"signing secret {done}" + ("; it is shown only now" if text else "")
