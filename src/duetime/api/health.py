"""Health: /healthz for whether the service is up, /readyz for whether it can do its work."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from duetime.api.envelope import RETRY_AFTER, Code, Reply
from duetime.api.operation import Operation
from duetime.api.request import Request
from duetime.api.views import Instant
from duetime.clock import to_rfc3339
from duetime.errors import StoreError
from duetime.service import Service

PING_TIMEOUT = 5.0


class HealthView(msgspec.Struct):
    """Whether the service is up."""

    status: Literal["up", "degraded"]
    database: Literal["connected", "disconnected"]
    nats: Annotated[
        Literal["connected", "disconnected", "not_configured"],
        Meta(
            description="Where it is `disconnected`, NATS callbacks fail under their retry policy "
            "until it is back; the service is up all the same."
        ),
    ]
    timestamp: Instant


class ReadinessView(msgspec.Struct):
    """Whether the service can do its work."""

    database: Literal["connected", "disconnected"]
    engine: Annotated[
        Literal["alive", "stalled", "off"],
        Meta(description="`stalled`: a part of it has made no pass for 15 seconds."),
    ]
    writable: Annotated[
        bool | None, Meta(description="Whether the engine's last heartbeats were written.")
    ]
    behind_ms: Annotated[
        int | None, Meta(description="How late the most overdue timer is that it has in sight.")
    ]
    timestamp: Instant


class Health:
    """The operations that tell how the service is doing."""

    def __init__(
        self, service: Service, is_nats_connected: Callable[[], bool] | None = None
    ) -> None:
        self._service = service
        self._is_nats_connected = is_nats_connected  # None: there is no NATS

    def operations(self) -> list[Operation]:
        """Every operation of this resource."""
        return [
            Operation(
                method="GET",
                path="/healthz",
                handler=self.health,
                summary="Whether the service is up",
                tag="Health",
                answer=HealthView,
                failures=(500,),
                role=None,
            ),
            Operation(
                method="GET",
                path="/readyz",
                handler=self.readiness,
                summary="Whether the service can do its work",
                tag="Health",
                answer=ReadinessView,
                failures=(503,),
                role=None,
            ),
        ]

    async def health(self, _request: Request) -> Reply:
        now = to_rfc3339(self._service.clock.now())
        if await self._is_connected():
            return Reply(200, "healthy", HealthView("up", "connected", self._nats(), now))
        data = HealthView("degraded", "disconnected", self._nats(), now)
        return Reply(500, "database connection failed", data, code=Code.UNEXPECTED)

    def _nats(self) -> Literal["connected", "disconnected", "not_configured"]:
        if self._is_nats_connected is None:
            return "not_configured"
        return "connected" if self._is_nats_connected() else "disconnected"

    async def readiness(self, _request: Request) -> Reply:
        engine = self._service.engine_status()
        is_connected = await self._is_connected()
        data = ReadinessView(
            database="connected" if is_connected else "disconnected",
            engine="off" if engine is None else "alive" if engine.alive else "stalled",
            writable=None if engine is None else engine.writable,
            behind_ms=None if engine is None else engine.behind_ms,
            timestamp=to_rfc3339(self._service.clock.now()),
        )
        if is_connected and (engine is None or (engine.alive and engine.writable)):
            return Reply(200, "ready", data)
        return Reply(503, "not ready", data, code=Code.UNAVAILABLE, headers=RETRY_AFTER)

    async def _is_connected(self) -> bool:
        try:
            async with asyncio.timeout(PING_TIMEOUT):
                await self._service.ping()
        except (StoreError, TimeoutError):
            return False
        return True
