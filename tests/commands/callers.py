"""Whoever commands over NATS: they ask and wait for an answer, or fill a stream."""

import json
from typing import Any

from nats.aio.client import Client
from nats.js import JetStreamContext

from duetime.commands.answering import Answering
from duetime.commands.queue import Queue
from duetime.nats.connection import Connection
from tests.api.client import KEY, Answer, Api

WITHIN = 30.0  # seconds that anything may take on a busy machine


class Served:
    """The API, and somebody who asks for the same over NATS."""

    def __init__(
        self,
        api: Api,
        client: Client,
        connection: Connection,
        answering: Answering,
        prefix: str,
    ) -> None:
        self.api = api
        self.client = client
        self.connection = connection
        self.answering = answering
        self.prefix = prefix

    async def ask(
        self,
        verb: str,
        body: Any,
        *,
        key: str | None = KEY,
        tenant: str = "default",
        prefix: str | None = None,
        client: Client | None = None,
        **headers: str,
    ) -> Answer:
        """Ask for something; a body that is not bytes is sent as JSON."""
        subject = f"{prefix or f'{self.prefix}.{tenant}'}.timers.{verb}"
        message = await (client or self.client).request(
            subject, content(body), timeout=WITHIN, headers=fields(key, headers)
        )
        told = message.headers or {}
        return Answer(int(told["Duetime-Status"]), told, message.data)


class Queued:
    """A queue, and somebody who puts creates into its stream."""

    def __init__(
        self, api: Api, client: Client, connection: Connection, queue: Queue, names: tuple[str, str]
    ) -> None:
        self.api = api
        self.client = client
        self.connection = connection
        self.queue = queue
        self.prefix, self.stream = names

    @property
    def jetstream(self) -> JetStreamContext:
        return self.client.jetstream()

    async def put(
        self,
        body: Any,
        *,
        key: str | None = KEY,
        tenant: str = "default",
        prefix: str | None = None,
        **headers: str,
    ) -> int:
        """Put a create into the stream; the answer is its number there."""
        subject = f"{prefix or f'{self.prefix}.{tenant}'}.queue.create"
        stored = await self.jetstream.publish(
            subject, content(body), timeout=WITHIN, headers=fields(key, headers)
        )
        return stored.seq

    async def timers(self) -> list[dict[str, Any]]:
        """All timers of the tenant that there is from the beginning."""
        return (await self.api.get("/timers")).data["timers"]

    async def dead(self, tenant: str = "default") -> Any:
        """The last dead letter of a tenant."""
        return await self.jetstream.get_last_msg(self.stream, f"{self.prefix}.{tenant}.queue.dead")

    async def left(self) -> int:
        """How many messages the stream has, dead letters among them."""
        return (await self.jetstream.stream_info(self.stream)).state.messages

    async def pending(self) -> tuple[int, int]:
        """How many creates were not taken yet, and how many were and are not acknowledged."""
        info = await self.jetstream.consumer_info(self.stream, "duetime")
        return info.num_pending, info.num_ack_pending


def content(body: Any) -> bytes:
    """A body as it is sent."""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def fields(key: str | None, headers: dict[str, str]) -> dict[str, str] | None:
    """Headers, whose names have `_` for `-`."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if key is not None:
        sent["X-API-Key"] = key
    return sent or None
