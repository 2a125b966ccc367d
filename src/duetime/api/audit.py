"""The audit resource: who did what, when, and from where."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from duetime.api.cursors import Cursors
from duetime.api.envelope import Reply
from duetime.api.lists import Cursor, Limit
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.seal import Seal
from duetime.api.views import Instant
from duetime.audit_line import AuditLine
from duetime.audit_pages import AuditFilter
from duetime.clock import to_rfc3339
from duetime.requests import GroupName, Text, Time, to_time
from duetime.service import Service
from duetime.tenancy.role import Role

NDJSON = b"application/x-ndjson"


class AuditExportParameters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which lines of the audit."""

    actor: Annotated[Text, Meta(description="The name of the key.")] | None = None
    key: Annotated[Text, Meta(description="The id of the key.")] | None = None
    action: Annotated[Text, Meta(examples=["timer.cancel"])] | None = None
    kind: Annotated[Text, Meta(examples=["timer", "group", "key"])] | None = None
    target: Annotated[Text, Meta(description="The id, or the name, of what it was.")] | None = None
    group: GroupName | None = None
    after: Time | None = None
    before: Time | None = None
    order: Literal["asc", "desc"] = "desc"


class AuditParameters(AuditExportParameters, kw_only=True):
    """Which lines of the audit, and how many."""

    limit: Limit = 50
    cursor: Cursor | None = None


class AuditLineView(msgspec.Struct, kw_only=True):
    """One thing that somebody did."""

    id: str
    at: Instant
    actor: Annotated[str, Meta(description="The name of the key; the API_KEY's is `operator`.")]
    key: Annotated[
        str | None,
        Meta(
            description="The id of the key; null: the operator's, the service itself, or who was "
            "let in by NATS."
        ),
    ]
    action: str
    kind: Annotated[str, Meta(description="What kind of thing it was done to.")]
    target: Annotated[str, Meta(description="Which one: its id, or its name.")]
    group: str | None
    address: Annotated[str | None, Meta(description="Where the request came from.")]
    correlation_id: str | None
    details: dict[str, Any]


class AuditView(msgspec.Struct):
    """One page of the audit."""

    lines: list[AuditLineView]
    next_cursor: str | None


class Audit:
    """The operations on the audit."""

    def __init__(self, service: Service, seal: Seal) -> None:
        self._reader = service.audit_reader
        self._seal = seal

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="GET",
                path="/audit",
                handler=self.list,
                outlives_tenant=True,
                role=Role.ADMIN,
                summary="List what was done",
                tag="Audit",
                parameters=AuditParameters,
                answer=AuditView,
                failures=(400, 500, 503),
            ),
            Operation(
                method="GET",
                path="/audit/export",
                handler=self.export,
                outlives_tenant=True,
                role=Role.ADMIN,
                summary="Export what was done as JSON lines",
                tag="Audit",
                parameters=AuditExportParameters,
                answer=AuditLineView,
                content_type="application/x-ndjson",
                failures=(400, 500, 503),
            ),
        ]

    async def list(self, request: Request) -> Reply:
        given = request.parameters(AuditParameters)
        cursors = Cursors(self._seal, request.caller.tenant, "audit")
        place = cursors.read(given.cursor, str)
        page = await self._reader.page(request.caller, _filter(given), place, given.limit)
        cursor = None if page.next_place is None else cursors.write(page.next_place)
        return Reply(200, "success", AuditView([_view(line) for line in page.lines], cursor))

    async def export(self, request: Request) -> Reply:
        wanted = _filter(request.parameters(AuditExportParameters))
        lines = self._reader.all(request.caller, wanted)
        return Reply(200, "success", stream=_written(lines), content_type=NDJSON)


def _filter(given: AuditExportParameters) -> AuditFilter:
    return AuditFilter(
        actor=given.actor,
        key=given.key,
        action=given.action,
        kind=given.kind,
        target=given.target,
        group=given.group,
        after=None if given.after is None else to_time(given.after, "after"),
        before=None if given.before is None else to_time(given.before, "before"),
        descending=given.order == "desc",
    )


async def _written(parts: AsyncIterator[list[AuditLine]]) -> AsyncGenerator[bytes]:
    async for lines in parts:
        yield b"".join(msgspec.json.encode(_view(line)) + b"\n" for line in lines)


def _view(line: AuditLine) -> AuditLineView:
    return AuditLineView(
        id=line.id,
        at=to_rfc3339(line.at),
        actor=line.actor,
        key=line.key,
        action=line.action,
        kind=line.kind,
        target=line.target,
        group=line.group,
        address=line.address,
        correlation_id=line.correlation_id,
        details=line.details,
    )
