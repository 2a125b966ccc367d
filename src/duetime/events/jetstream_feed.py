"""The feed of the stream: what was relayed to JetStream, read in the order in which it lies there.

The relay sees to it that events of one timer are in order. A position is a sequence number of the
stream, and when that was made: one that is made anew, under the same name, counts from the first
again. Each tail has a consumer of its own, which nobody acknowledges anything to; when it is lost,
with its server or by a break of the connection, another one begins behind what was read.
"""

from contextlib import suppress
from typing import Annotated, NamedTuple

import msgspec

from duetime.errors import JetStreamError, NatsError, NatsUnavailable
from duetime.events.feed import FIRST, Seen, Told, family_of, place_in, too_old
from duetime.events.stream import subject_of
from duetime.nats.jetstream import NO_STREAM, JetStream, Pulled
from duetime.nats.subjects import token

AT_ONCE = 500  # messages, and ...
OWN_AT_ONCE = 200  # ... for one of the many who may read by themselves
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
        state = await _state(self._jetstream, self._stream)
        if after is None:
            sequence = state.last
        elif after == FIRST:
            sequence = 0
        else:
            sequence = int(place_in(after, "stream"))
            is_of_this_one = family_of(after) == state.family
            if not is_of_this_one or not state.first - 1 <= sequence <= state.last:
                raise too_old()
        return JetStreamTail(
            self._jetstream,
            self._stream,
            self._prefix,
            tenant=tenant,
            family=state.family,
            sequence=sequence,
        )


class _State(NamedTuple):
    """What is in a stream."""

    family: str  # of its positions
    first: int
    last: int


async def _state(jetstream: JetStream, stream: str) -> _State:
    try:
        info = await jetstream.stream_info(stream)
    except JetStreamError as error:
        if error.code == NO_STREAM:  # nothing was relayed yet
            return _State("stream.0", 1, 0)
        raise
    # Digits of a time, so that families sort, too.
    seconds, _, fraction = info["created"].rstrip("Z").partition(".")
    digits = "".join(filter(str.isdigit, seconds)) + fraction.ljust(9, "0")
    state = info["state"]
    return _State(f"stream.{digits}", state["first_seq"], state["last_seq"])


class JetStreamTail:
    """Reads along the stream."""

    def __init__(
        self,
        jetstream: JetStream,
        stream: str,
        prefix: str,
        *,
        tenant: str | None,
        family: str,
        sequence: int,
    ) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._prefix = prefix
        self._subject = f"{prefix}.events.{'' if tenant is None else f'{token(tenant)}.'}>"
        self._most = AT_ONCE if tenant is None else OWN_AT_ONCE
        self._family = family
        self._sequence = sequence  # of what was read last
        self._consumer: str | None = None
        self._count = 0  # of what its consumer has given out
        self.is_level = False

    @property
    def position(self) -> str:
        return f"{self._family}-{self._sequence:020d}"

    def has_told(self, told: Told) -> bool:
        return told.position <= self.position

    async def read(self) -> list[Told]:
        try:
            consumer = self._consumer = self._consumer or await self._new_consumer()
            wait = WAIT if self.is_level else 0.0
            pulled = await self._jetstream.fetch(self._stream, consumer, self._most, wait)
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
            told += self._told(each)
        if not pulled:
            self.is_level = True
        return told

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(NatsError):
                await self._jetstream.delete_consumer(self._stream, consumer)

    async def _new_consumer(self) -> str:
        family = (await _state(self._jetstream, self._stream)).family
        if family != self._family:  # it was made anew, and all that is in it is new
            self._family, self._sequence = family, 0
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

    def _told(self, pulled: Pulled) -> list[Told]:
        """What a message tells; nothing, if somebody else published it.

        Such a one may say what it likes, to whom it likes; so it must be what a relay publishes.
        """
        body, subject = pulled.message.data, pulled.message.subject
        try:
            event = _read(body)
        except msgspec.MsgspecError:
            return []
        if subject != subject_of(self._prefix, event.tenant, event.group, event.type):
            return []
        if b"\n" in body or b"\r" in body:  # an end, where it is sent on
            return []
        return [Told.of(event, self.position, body)]


class _Event(Seen, frozen=True):
    """What is asked of an event, of a type that can stand in a line of its own."""

    type: Annotated[str, msgspec.Meta(pattern=r"^\w+\Z")]


_read = msgspec.json.Decoder(_Event).decode
