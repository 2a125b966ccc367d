"""The feed of the stream: what was relayed to JetStream, read in the order in which it lies there.

The relay sees to it that events of one timer are in order. A position is a sequence number of the
stream. Each tail has a consumer of its own, which nobody acknowledges anything to; when it is lost,
with its server or by a break of the connection, another one begins behind what was read.
"""

from contextlib import suppress

import msgspec

from duetime.errors import JetStreamError, NatsError, NatsUnavailable
from duetime.events.feed import FIRST, Seen, Told, place_in, too_old
from duetime.nats.jetstream import NO_STREAM, JetStream, Pulled
from duetime.nats.subjects import token

AT_ONCE = 500  # messages
WAIT = 5.0  # seconds for something new
_FORGOTTEN_AFTER = 60  # seconds that a server keeps a consumer that nobody asks


class JetStreamFeed:
    """Reads the stream of events."""

    def __init__(self, jetstream: JetStream, stream: str, prefix: str) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._prefix = prefix  # of all subjects

    async def tail(self, after: str | None, tenant: str | None = None) -> "JetStreamTail":
        """Begin to read."""
        first, last = await self._ends()
        if after is None:
            sequence = last
        elif after == FIRST:
            sequence = 0
        else:
            sequence = int(place_in(after, "stream"))
            if not first - 1 <= sequence <= last:  # beyond its end: the stream was made anew
                raise too_old()
        subject = f"{self._prefix}.events.{'' if tenant is None else f'{token(tenant)}.'}>"
        return JetStreamTail(self._jetstream, self._stream, subject, sequence)

    async def _ends(self) -> tuple[int, int]:
        try:
            state = (await self._jetstream.stream_info(self._stream))["state"]
        except JetStreamError as error:
            if error.code == NO_STREAM:  # nothing was relayed yet
                return 1, 0
            raise
        return state["first_seq"], state["last_seq"]


class JetStreamTail:
    """Reads along the stream."""

    def __init__(self, jetstream: JetStream, stream: str, subject: str, sequence: int) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._subject = subject
        self._sequence = sequence  # of what was read last
        self._consumer: str | None = None
        self._count = 0  # of what its consumer has given out
        self.is_level = False

    @property
    def position(self) -> str:
        return _position(self._sequence)

    def has_told(self, told: Told) -> bool:
        return told.position <= self.position

    async def read(self) -> list[Told]:
        try:
            consumer = self._consumer = self._consumer or await self._new_consumer()
            wait = WAIT if self.is_level else 0.0
            pulled = await self._jetstream.fetch(self._stream, consumer, AT_ONCE, wait)
        except NatsError:
            self._consumer = None
            raise
        told: list[Told] = []
        for each in pulled:
            if each.number != self._count + 1:  # what came between is lost, for it comes but once
                self._consumer = None
                if told:
                    break
                raise NatsUnavailable("some events did not arrive, and are read again")
            self._count = each.number
            self._sequence = each.sequence
            self.is_level = not each.pending
            told += _told(each)
        if not pulled:
            self.is_level = True
        return told

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(NatsError):
                await self._jetstream.delete_consumer(self._stream, consumer)

    async def _new_consumer(self) -> str:
        made = await self._jetstream.ensure_consumer(
            self._stream,
            {
                "deliver_policy": "by_start_sequence",
                "opt_start_seq": self._sequence + 1,
                "ack_policy": "none",
                "filter_subject": self._subject,
                "inactive_threshold": _FORGOTTEN_AFTER * 1_000_000_000,
                "mem_storage": True,
                "num_replicas": 1,
            },
        )
        self._count = 0
        name: str = made["name"]
        return name


_read = msgspec.json.Decoder(Seen).decode


def _told(pulled: Pulled) -> list[Told]:
    body = pulled.message.data
    try:
        event = _read(body)
    except msgspec.MsgspecError:  # somebody else published it
        return []
    return [Told.of(event, _position(pulled.sequence), body)]


def _position(sequence: int) -> str:
    return f"stream-{sequence:020d}"
