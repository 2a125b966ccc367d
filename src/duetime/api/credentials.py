"""The credentials resource: with what callbacks authenticate; secrets go in and never come out."""

from typing import Annotated

import msgspec
from msgspec import Meta

from duetime.api.envelope import Reply
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.views import Instant
from duetime.clock import to_rfc3339
from duetime.requests import check_group
from duetime.service import Service
from duetime.tenancy.credential import Certificate, Credential, Type
from duetime.tenancy.credential_requests import CreateCredential, PutCredential
from duetime.tenancy.role import Role

PATH = "/credentials/{credential}"


class CertificateView(msgspec.Struct, kw_only=True):
    """What a client certificate says of itself."""

    subject: str
    issuer: str
    not_after: Instant
    fingerprint: Annotated[str, Meta(description="SHA-256, in hex.")]


class CredentialView(msgspec.Struct, kw_only=True):
    """A credential, without its secret; null is what its type does not have."""

    name: str
    type: Type
    hosts: Annotated[tuple[str, ...], Meta(description="The only hosts that it is sent to.")]
    allow_http: bool
    groups: Annotated[
        list[str] | None, Meta(description="Whose timers may use it; null: all groups.")
    ]
    username: str | None
    header: str | None
    token_url: str | None
    client_id: str | None
    scope: str | None
    audience: str | None
    auth_style: str | None
    certificate_info: CertificateView | None
    created_at: Instant
    created_by: Annotated[str, Meta(description="The name of the key that made it.")]
    updated_at: Instant


class CredentialDetailView(CredentialView):
    """A credential with all but its secret."""

    certificate: str | None
    authorities: str | None


class CredentialListView(msgspec.Struct):
    """The credentials, by name."""

    credentials: list[CredentialView]


class DeletedCredentialView(msgspec.Struct):
    """The credential that is gone."""

    name: str


class Credentials:
    """The operations on credentials."""

    def __init__(self, service: Service) -> None:
        self._credentials = service.credentials

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="POST",
                path="/credentials",
                handler=self.create,
                makes=True,
                role=Role.ADMIN,
                summary="Create a credential",
                tag="Credentials",
                body=CreateCredential,
                answer=CredentialDetailView,
                success=(201,),
                failures=(400, 404, 409, 500, 503),
            ),
            Operation(
                method="GET",
                path="/credentials",
                handler=self.list,
                role=Role.ADMIN,
                summary="List the credentials",
                tag="Credentials",
                answer=CredentialListView,
                failures=(500, 503),
            ),
            Operation(
                method="GET",
                path=PATH,
                handler=self.get,
                role=Role.ADMIN,
                summary="Get a credential",
                tag="Credentials",
                answer=CredentialDetailView,
                failures=(400, 404, 500, 503),
            ),
            Operation(
                method="PUT",
                path=PATH,
                handler=self.put,
                makes=True,
                role=Role.ADMIN,
                summary="Create or change a credential",
                tag="Credentials",
                body=PutCredential,
                answer=CredentialDetailView,
                success=(201, 200),
                failures=(400, 404, 409, 500, 503),
            ),
            Operation(
                method="DELETE",
                path=PATH,
                handler=self.delete,
                role=Role.ADMIN,
                summary="Delete a credential",
                tag="Credentials",
                answer=DeletedCredentialView,
                failures=(400, 404, 409, 500, 503),
            ),
        ]

    async def create(self, request: Request) -> Reply:
        body = request.decode(CreateCredential)
        made, _ = await self._credentials.put(request.caller, body.name, body, must_be_new=True)
        return Reply(201, "credential created; its secret is never shown", _detail(made))

    async def list(self, request: Request) -> Reply:
        found = await self._credentials.list(request.caller)
        return Reply(200, "success", CredentialListView([_view(each) for each in found]))

    async def get(self, request: Request) -> Reply:
        credential = await self._credentials.get(request.caller, _name_in(request))
        return Reply(200, "success", _detail(credential))

    async def put(self, request: Request) -> Reply:
        name, body = _name_in(request), request.decode(PutCredential)
        credential, is_new = await self._credentials.put(request.caller, name, body)
        if is_new:
            return Reply(201, "credential created; its secret is never shown", _detail(credential))
        return Reply(200, "credential updated successfully", _detail(credential))

    async def delete(self, request: Request) -> Reply:
        name = _name_in(request)
        await self._credentials.delete(request.caller, name)
        return Reply(200, "credential deleted successfully", DeletedCredentialView(name))


def _name_in(request: Request) -> str:
    name = request.path_params["credential"]
    check_group(name, "credential")  # the names of both are made of the same
    return name


def _view(credential: Credential) -> CredentialView:
    parts = credential.parts
    return CredentialView(
        name=credential.name,
        type=credential.type,
        hosts=credential.hosts,
        allow_http=credential.allow_http,
        groups=None if credential.groups is None else sorted(credential.groups),
        username=parts.get("username"),
        header=parts.get("header"),
        token_url=parts.get("token_url"),
        client_id=parts.get("client_id"),
        scope=parts.get("scope"),
        audience=parts.get("audience"),
        auth_style=parts.get("auth_style"),
        certificate_info=None if credential.about is None else _about(credential.about),
        created_at=to_rfc3339(credential.created_at),
        created_by=credential.created_by,
        updated_at=to_rfc3339(credential.updated_at),
    )


def _detail(credential: Credential) -> CredentialDetailView:
    return CredentialDetailView(
        **msgspec.structs.asdict(_view(credential)),
        certificate=credential.parts.get("certificate"),
        authorities=credential.parts.get("authorities"),
    )


def _about(certificate: Certificate) -> CertificateView:
    return CertificateView(
        subject=certificate.subject,
        issuer=certificate.issuer,
        not_after=to_rfc3339(certificate.not_after),
        fingerprint=certificate.fingerprint,
    )
