"""A service that NATS's own tools find: they ask who is there, what it offers, and how it does.

This is NATS's protocol for micro services: each instance answers on ``$SRV.PING``, ``$SRV.INFO``
and ``$SRV.STATS``, alone, with its name, and with its name and id behind. What the service offers
are its endpoints, each a subject; the instances share the requests on it.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

import msgspec

from duetime.clock import Clock, to_rfc3339
from duetime.errors import NatsError
from duetime.nats import Message, Nats, Subscription
from duetime.nats.subjects import is_below

QUEUE = "q"  # the group in which instances share requests, as the protocol has it

_TYPE = "io.nats.micro.v1.{}_response"
_NS = 1_000_000_000


class Endpoint:
    """One thing that a service offers, and how often it was asked for it."""

    def __init__(self, name: str, subject: str, metadata: Mapping[str, str]) -> None:
        self.name = name
        self.subject = subject
        self.metadata = metadata
        self._requests = 0
        self._errors = 0
        self._last_error = ""
        self._seconds = 0.0

    def count(self, seconds: float, error: str = "") -> None:
        """Take note of a request that took so long, and of what was wrong with it, if anything."""
        self._requests += 1
        self._seconds += seconds
        if error:
            self._errors += 1
            self._last_error = error

    def info(self) -> dict[str, object]:
        """What it is."""
        return {
            "name": self.name,
            "subject": self.subject,
            "queue_group": QUEUE,
            "metadata": self.metadata,
        }

    def stats(self) -> dict[str, object]:
        """How it is doing."""
        spent = round(self._seconds * _NS)
        return {
            "name": self.name,
            "subject": self.subject,
            "queue_group": QUEUE,
            "num_requests": self._requests,
            "num_errors": self._errors,
            "last_error": self._last_error,
            "processing_time": spent,
            "average_processing_time": spent // max(self._requests, 1),
        }


class MicroService:
    """One instance of a service.

    ``reserved`` is what subjects begin with to which no answer goes, nor to those of NATS itself:
    whoever asks may not be allowed to publish there, and we are.
    """

    def __init__(
        self,
        nats: Nats,
        clock: Clock,
        *,
        name: str,
        version: str,
        description: str,
        reserved: Iterable[str] = (),
    ) -> None:
        self._nats = nats
        self._reserved = tuple(reserved)
        self._who = {
            "name": name,
            "id": secrets.token_hex(11),
            "version": version,
            "metadata": dict[str, str](),
        }
        self._description = description
        self._started = to_rfc3339(clock.now())
        self._endpoints: list[Endpoint] = []
        self._discovery: list[Subscription] = []
        self._subscriptions: list[Subscription] = []

    def start(self) -> None:
        """Let tools find it."""
        telling = {"PING": self._ping, "INFO": self._info, "STATS": self._stats}
        for verb, tell in telling.items():
            for whom in ("", f".{self._who['name']}", f".{self._who['name']}.{self._who['id']}"):
                hear = partial(self._answer, tell)
                self._discovery.append(self._nats.subscribe(f"$SRV.{verb}{whom}", hear))

    def offer(
        self,
        name: str,
        subject: str,
        hear: Callable[[Endpoint, Message], None],
        metadata: Mapping[str, str],
    ) -> None:
        """Offer something: from now on, this hears of what is asked for on a subject."""
        endpoint = Endpoint(name, subject, metadata)
        self._endpoints.append(endpoint)
        self._subscriptions.append(
            self._nats.subscribe(subject, partial(self._ask, endpoint, hear), queue=QUEUE)
        )

    async def stop(self, within: float) -> None:
        """Be asked nothing more: what the server has sent by then is still heard of."""
        for each in self._discovery:
            each.end()
        for each in self._subscriptions:
            each.leave()
        with suppress(NatsError):
            await self._nats.flush(within)
        for each in self._subscriptions:
            each.end()

    def _ask(
        self, endpoint: Endpoint, hear: Callable[[Endpoint, Message], None], message: Message
    ) -> None:
        if self._may_be_answered(message):
            hear(endpoint, message)
        else:
            endpoint.count(0.0, "the answer was to go where none may")

    def _may_be_answered(self, message: Message) -> bool:
        to = message.reply
        return not to.startswith("$") and not is_below(to, self._reserved)

    def _answer(self, tell: Callable[[], dict[str, object]], message: Message) -> None:
        if message.reply and self._may_be_answered(message):
            with suppress(NatsError):  # whoever asked will ask again
                self._nats.publish(message.reply, msgspec.json.encode(tell()))

    def _ping(self) -> dict[str, object]:
        return {**self._who, "type": _TYPE.format("ping")}

    def _info(self) -> dict[str, object]:
        return {
            **self._who,
            "type": _TYPE.format("info"),
            "description": self._description,
            "endpoints": [each.info() for each in self._endpoints],
        }

    def _stats(self) -> dict[str, object]:
        return {
            **self._who,
            "type": _TYPE.format("stats"),
            "started": self._started,
            "endpoints": [each.stats() for each in self._endpoints],
        }


def error_headers(code: int, description: str) -> dict[str, str]:
    """The headers by which tools and clients see that an answer is a failure."""
    return {"Nats-Service-Error": description, "Nats-Service-Error-Code": str(code)}
