"""The stream of events in JetStream: what it is like, and how an event becomes a message of it."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from duetime.clock import Millis
from duetime.errors import NatsError
from duetime.events.view import encode
from duetime.nats.headers import written
from duetime.nats.jetstream import JetStream, Outgoing
from duetime.nats.subjects import token
from duetime.timer import Event

ANSWERED_WITHIN = 5.0  # seconds that a stream has to acknowledge messages
REMEMBERED_FOR: Millis = 120_000  # so long it knows a message again that comes twice

_NANOS = 1_000_000  # in a millisecond


class EventStream:
    """Where events are published to."""

    def __init__(
        self,
        jetstream: JetStream,
        *,
        name: str,
        prefix: str,
        max_age: Millis | None = None,
        replicas: int = 1,
    ) -> None:
        self._jetstream = jetstream
        self.name = name
        self.subjects = f"{prefix}.events.*.*.*"  # and not >: a tenant may be called "events"
        self._prefix = prefix
        self._max_age = max_age
        self._replicas = replicas

    @property
    def config(self) -> dict[str, Any]:
        """What it is made like, if there is none."""
        remembered = REMEMBERED_FOR if self._max_age is None else min(REMEMBERED_FOR, self._max_age)
        return {
            "name": self.name,
            "description": "Events of Duetime's timers",
            "subjects": [self.subjects],
            "storage": "file",
            "retention": "limits",
            "discard": "old",
            "max_age": (self._max_age or 0) * _NANOS,
            "num_replicas": self._replicas,
            "duplicate_window": remembered * _NANOS,
            "allow_direct": True,
        }

    async def make(self) -> None:
        """Create it, unless it is there."""
        await self._jetstream.ensure_stream(self.config)

    async def publish(self, events: Sequence[Event]) -> list[NatsError | None]:
        """Publish all at once; of each, why it was not stored, or None if it was."""
        messages = [self._message(event) for event in events]
        answers = await self._jetstream.publish_all(messages, ANSWERED_WITHIN)
        return [answer if isinstance(answer, NatsError) else None for answer in answers]

    def _message(self, event: Event) -> Outgoing:
        headers = {
            "Nats-Msg-Id": event.id,
            "Nats-Expected-Stream": self.name,
            "X-Correlation-ID": event.correlation_id,
        }
        subject = subject_of(self._prefix, event.tenant, event.group, event.type)
        return Outgoing(subject, encode(event), written(headers))


@lru_cache(maxsize=4096)
def subject_of(prefix: str, tenant: str, group: str, type_: str) -> str:
    """Where events of a type are published, of the timers of a group."""
    return f"{prefix}.events.{token(tenant)}.{token(group)}.{token(type_)}"
