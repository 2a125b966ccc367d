"""What the operator can do with all that is sealed, whosever it is."""

from typing import Annotated

import msgspec
from msgspec import Meta

from duetime.api.envelope import Reply
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.service import Service
from duetime.tenancy.role import Role


class UnreadableView(msgspec.Struct):
    """Something that no key of the service opens."""

    kind: str
    tenant: str
    id: str


class ResealedView(msgspec.Struct):
    """What is sealed with the newest key now."""

    kept: Annotated[int, Meta(description="How many secrets there are.")]
    resealed: Annotated[int, Meta(description="How many of them an older key had sealed.")]
    unreadable: Annotated[
        list[UnreadableView],
        Meta(description="Those that no key opens which the service has: they stay as they are."),
    ]


class Secrets:
    """The operations on all secrets."""

    def __init__(self, service: Service) -> None:
        self._resealing = service.resealing

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="POST",
                path="/secrets/reseal",
                handler=self.reseal,
                role=Role.OPERATOR,
                summary="Seal all secrets with the newest key",
                tag="Signing secrets",
                answer=ResealedView,
                failures=(409, 500, 503),
            )
        ]

    async def reseal(self, request: Request) -> Reply:
        done = await self._resealing.reseal(request.caller)
        unreadable = [UnreadableView(*each) for each in done.unreadable]
        if unreadable:
            message = f"{len(unreadable)} secrets cannot be opened with any key of the service"
        else:
            message = "all secrets are sealed with the newest key"
        return Reply(200, message, ResealedView(done.kept, done.resealed, unreadable))
