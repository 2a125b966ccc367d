"""The whoami resource: what the key of a request is good for."""

from typing import Annotated

import msgspec
from msgspec import Meta

from duetime.api.envelope import Reply
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.tenancy.role import Role


class WhoamiView(msgspec.Struct, kw_only=True):
    """Who asks."""

    tenant: Annotated[str, Meta(description="The tenant that the request acts for.")]
    role: Role
    name: Annotated[str, Meta(description="The name of the key; the API_KEY's is `operator`.")]
    key: Annotated[str | None, Meta(description="The id of the key; null: the operator's.")]
    groups: Annotated[
        list[str] | None, Meta(description="The only groups that there are for it; null: all.")
    ]


class Whoami:
    """The operation that tells a caller who they are."""

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="GET",
                path="/whoami",
                handler=self.get,
                role=Role.READ_WITHOUT_PAYLOADS,
                summary="Get what this key is good for",
                tag="Keys",
                answer=WhoamiView,
            )
        ]

    async def get(self, request: Request) -> Reply:
        caller = request.caller
        data = WhoamiView(
            tenant=caller.tenant,
            role=caller.role,
            name=caller.name,
            key=caller.key,
            groups=None if caller.groups is None else sorted(caller.groups),
        )
        return Reply(200, "success", data)
