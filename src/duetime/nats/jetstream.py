"""JetStream, as far as Duetime uses it: streams and consumers are made, messages stored and pulled.

All acknowledgements come in on one subscription, each on a subject of its own.
"""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from duetime.clock import Clock, SharedTimeLimit, time_limit
from duetime.errors import (
    JetStreamError,
    NatsError,
    NatsUnavailable,
    NoResponders,
    NotPermitted,
)
from duetime.nats import Message, Nats

API = "$JS.API"
PATIENCE = 5.0  # seconds for what is only asked

NO_STREAM = 10059
_NAME_IN_USE = 10058
NO_CONSUMER = 10014

_NOBODY = 503
_HEARTBEAT = 100
_NOTHING = frozenset({404, 408})  # no messages, or none in time
_GRACE = 1.0  # seconds more than a server was told to wait

_NOT_IN_TIME = "JetStream did not acknowledge it in time"
_WITH_DOMAIN = 11  # so many parts has the subject of an acknowledgement, or nine without one


class Outgoing(NamedTuple):
    """A message for a stream."""

    subject: str
    data: bytes
    headers: bytes = b""  # as ``headers.written`` makes them


class Ack(NamedTuple):
    """A message is stored."""

    stream: str
    sequence: int
    is_duplicate: bool = False  # it had been before, under the same Nats-Msg-Id


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""

    @property
    def error(self) -> JetStreamError:
        return JetStreamError(self.err_code or self.code, self.description)


class _Stored(msgspec.Struct):
    """The answer of a stream."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: _Error | None = None


class _Answer(msgspec.Struct):
    error: _Error | None = None


_read_stored = msgspec.json.Decoder(_Stored).decode
_read_answer = msgspec.json.Decoder(_Answer).decode


class _Batch:
    """Messages that were published together, and what became of each."""

    __slots__ = ("answers", "done", "left")

    def __init__(self, count: int) -> None:
        self.answers: list[Ack | NatsError | None] = [None] * count
        self.left = count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(self, index: int, answer: Ack | NatsError) -> None:
        if self.answers[index] is None:
            self.answers[index] = answer
            self.left -= 1
            if not self.left and not self.done.done():
                self.done.set_result(None)

    def end(self, error: NatsError) -> None:
        """Nothing more comes."""
        for index in range(len(self.answers)):
            self.answer(index, error)


class _One:
    """A message that was published alone."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done: asyncio.Future[Ack | NatsError] = asyncio.get_running_loop().create_future()

    def answer(self, _index: int, answer: Ack | NatsError) -> None:
        if not self.done.done():
            self.done.set_result(answer)


class Pulled(NamedTuple):
    """A message that was pulled; it comes again unless it is acknowledged."""

    message: Message
    sequence: int  # in its stream
    deliveries: int  # of it so far, with this one
    number: int  # of it among all that its consumer has given out
    stored_at: int  # when the stream took it, in nanoseconds since 1970
    pending: int  # messages that its consumer has still to give out
    nats: Nats

    def ack(self) -> None:
        """It is done with. NatsUnavailable if that cannot be said: then it comes again."""
        self.nats.publish(self.message.reply, b"+ACK")

    def nak(self, delay: float = 0.0) -> None:
        """Let it come again, after so many seconds."""
        wait = b' {"delay": %d}' % (delay * 1e9) if delay else b""
        self.nats.publish(self.message.reply, b"-NAK" + wait)

    def term(self, reason: str = "") -> None:
        """It is not to come again, though it was not done."""
        self.nats.publish(self.message.reply, f"+TERM {reason}".strip().encode())

    def in_progress(self) -> None:
        """It takes longer: do not let it come again yet."""
        self.nats.publish(self.message.reply, b"+WPI")


class JetStream:
    """JetStream over a connection."""

    def __init__(self, nats: Nats, clock: Clock) -> None:
        self._nats = nats
        self._clock = clock
        # Others may use JetStream over the same connection, and are answered elsewhere.
        self._inbox = f"{nats.inbox}.{secrets.token_hex(4)}"
        self._waiting: dict[str, tuple[_Batch | _One, int]] = {}  # by where the answer comes in
        self._limits: dict[float, SharedTimeLimit] = {}  # by their seconds, which are few
        self._last = 0
        self._pulls = 0
        self._is_listening = False

    async def publish_all(
        self, messages: Sequence[Outgoing], within: float
    ) -> list[Ack | NatsError]:
        """Publish all of them at once, and say of each what became of it, in their order.

        NoResponders: no stream takes that subject. JetStreamError: it refused. NatsUnavailable:
        it was not acknowledged in time, and may be stored or not.
        """
        self._listen()
        batch = _Batch(len(messages))
        if not messages:
            return []
        inbox, first = f"{self._inbox}.a.", self._last
        self._last += len(messages)
        tokens = [f"{inbox}{number}" for number in range(first + 1, self._last + 1)]
        for index, (message, reply) in enumerate(zip(messages, tokens, strict=True)):
            try:
                self._nats.publish(
                    message.subject, message.data, headers=message.headers, reply=reply
                )
            except NatsError as error:
                batch.answer(index, error)
            else:
                self._waiting[reply] = batch, index
        try:
            async with time_limit(self._clock, within):
                refused = await self._nats.flush(within)
                if refused:
                    _refuse(batch, messages, refused)
                await batch.done
        except TimeoutError:
            batch.end(NatsUnavailable(_NOT_IN_TIME))
        except NatsUnavailable as error:
            batch.end(error)
        finally:
            for reply in tokens:
                self._waiting.pop(reply, None)
        return [answer for answer in batch.answers if answer is not None]

    async def publish(self, message: Outgoing, within: float) -> Ack:
        """Publish one, and wait for its acknowledgement; raises what ``publish_all`` answers.

        The same, but cheaper for those of whom many come one by one, each with its own task.
        """
        self._listen()
        self._last += 1
        reply = f"{self._inbox}.a.{self._last}"
        one = _One()
        self._nats.publish(message.subject, message.data, headers=message.headers, reply=reply)
        self._waiting[reply] = one, 0
        limit = self._limits.get(within)
        if limit is None:
            limit = self._limits[within] = SharedTimeLimit(self._clock, within)
        try:
            return await limit.run(self._acknowledged(message.subject, one, within))
        except TimeoutError:
            raise NatsUnavailable(_NOT_IN_TIME) from None
        finally:
            self._waiting.pop(reply, None)

    async def _acknowledged(self, subject: str, one: "_One", within: float) -> Ack:
        if subject in await self._nats.flush(within):
            raise _not_permitted(subject)
        answer = await one.done
        if isinstance(answer, NatsError):
            raise answer
        return answer

    async def ensure_stream(self, config: Mapping[str, Any]) -> None:
        """Create a stream if there is none of its name; one that is there is left as it is."""
        name = config["name"]
        try:
            await self.stream_info(name)
        except JetStreamError as error:
            if error.code != NO_STREAM:
                raise
        else:
            return
        try:
            await self._ask(f"STREAM.CREATE.{name}", config)
        except JetStreamError as error:
            if error.code != _NAME_IN_USE:  # somebody else was quicker
                raise

    async def stream_info(self, name: str) -> dict[str, Any]:
        """What there is to know of a stream: its config and its state."""
        return await self._ask(f"STREAM.INFO.{name}")

    async def ensure_consumer(self, stream: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """Create a consumer, unless there is one of its name, which is left as it is.

        One without a name is always made, and the answer tells the name that it was given.
        """
        name = config.get("name") or config.get("durable_name")
        if name:
            try:
                return await self._ask(f"CONSUMER.INFO.{stream}.{name}")
            except JetStreamError as error:
                if error.code != NO_CONSUMER:
                    raise
        place = f"{stream}.{name}" if name else stream
        order = {"stream_name": stream, "config": config}
        return await self._ask(f"CONSUMER.CREATE.{place}", order)

    async def update_consumer(self, stream: str, config: Mapping[str, Any]) -> None:
        """Give a consumer that is there another config."""
        order = {"stream_name": stream, "config": config, "action": "update"}
        await self._ask(f"CONSUMER.CREATE.{stream}.{config['durable_name']}", order)

    async def delete_consumer(self, stream: str, name: str) -> None:
        """Delete a consumer; none is left, whether there was one or not."""
        try:
            await self._ask(f"CONSUMER.DELETE.{stream}.{name}")
        except JetStreamError as error:
            if error.code != NO_CONSUMER:
                raise

    async def fetch(
        self, stream: str, consumer: str, batch: int, expires: float, *, max_bytes: int = 0
    ) -> list[Pulled]:
        """Up to so many messages: what is there, or the first that comes within so many seconds.

        ``max_bytes`` bounds all of them together, where it is given; each must fit into it.
        JetStreamError if there is no such consumer any more.
        """
        order: dict[str, Any] = {"batch": batch, "no_wait": True}
        if max_bytes:
            order["max_bytes"] = max_bytes
        there = await self._pull(stream, consumer, order, PATIENCE)
        if there or expires <= 0:
            return there
        order = {"batch": 1, "expires": int(expires * 1e9)}
        return await self._pull(stream, consumer, order, expires + _GRACE)

    async def _pull(
        self, stream: str, consumer: str, order: Mapping[str, Any], within: float
    ) -> list[Pulled]:
        self._pulls += 1
        inbox = f"{self._inbox}.p.{self._pulls}"
        pull = _Pull(self._nats, order["batch"])
        listening = self._nats.subscribe(inbox, pull.hear)
        watching = self._nats.when_lost(pull.lose)
        subject = f"{API}.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        try:
            self._nats.publish(subject, msgspec.json.encode(order), reply=inbox)
            async with time_limit(self._clock, within):
                await pull.done
        except TimeoutError:
            pass  # what has come has come
        finally:
            watching.end()
            listening.end()
        return pull.pulled

    async def _ask(self, what: str, order: Mapping[str, Any] | None = None) -> dict[str, Any]:
        data = b"" if order is None else msgspec.json.encode(order)
        try:
            message = await self._nats.request(f"{API}.{what}", data, within=PATIENCE)
        except NoResponders:
            raise NoResponders(
                "the NATS server has no JetStream for this user; start it with -js, and let the "
                "user's account have it"
            ) from None
        error = _read_answer(message.data).error
        if error is not None:
            raise error.error
        answer: dict[str, Any] = msgspec.json.decode(message.data)
        return answer

    def _listen(self) -> None:
        if not self._is_listening:
            self._is_listening = True
            self._nats.subscribe(f"{self._inbox}.a.*", self._hear)
            self._nats.when_lost(self._lose)

    def _hear(self, message: Message) -> None:
        waiting = self._waiting.pop(message.subject, None)
        if waiting is None:
            return  # nobody waits any more
        batch, index = waiting
        batch.answer(index, _answer(message))

    def _lose(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for batch, index in waiting.values():
            error = NatsUnavailable("the connection to the NATS server was lost before it answered")
            batch.answer(index, error)


class _Pull:
    """What one request for messages brings."""

    def __init__(self, nats: Nats, batch: int) -> None:
        self.pulled: list[Pulled] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._nats = nats
        self._batch = batch

    def hear(self, message: Message) -> None:
        if message.status is None or message.reply.startswith("$JS.ACK."):
            self.pulled.append(_pulled(message, self._nats))
            if len(self.pulled) == self._batch:
                self._end()
        elif message.status in _NOTHING:
            self._end()
        elif message.status == _NOBODY:
            self._fail(JetStreamError(NO_CONSUMER, "there is no such consumer"))
        elif message.status != _HEARTBEAT:
            said = message.headers.get("Description", "it was refused")
            self._fail(JetStreamError(message.status, said))

    def lose(self) -> None:
        self._fail(NatsUnavailable("the connection to the NATS server was lost"))

    def _end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _fail(self, error: NatsError) -> None:
        if self.pulled:  # these can be worked on; the next pull will tell
            self._end()
        elif not self.done.done():
            self.done.set_exception(error)


def _answer(message: Message) -> Ack | NatsError:
    if message.status == _NOBODY:
        return NoResponders("no stream takes messages on that subject")
    try:
        stored = _read_stored(message.data)
    except msgspec.MsgspecError:
        return NatsError("what answered is no stream")
    if stored.error is not None:
        return stored.error.error
    if not stored.stream:
        return NatsError("what answered is no stream")
    return Ack(stored.stream, stored.seq, stored.duplicate)


def _refuse(batch: _Batch, messages: Sequence[Outgoing], refused: frozenset[str]) -> None:
    for index, message in enumerate(messages):
        if message.subject in refused:
            batch.answer(index, _not_permitted(message.subject))


def _not_permitted(subject: str) -> NotPermitted:
    return NotPermitted(f"NATS does not let its user publish on {subject}")


def _pulled(message: Message, nats: Nats) -> Pulled:
    parts = message.reply.split(".")
    offset = 2 if len(parts) >= _WITH_DOMAIN else 0
    deliveries, sequence, number, stored_at, pending = map(int, parts[4 + offset : 9 + offset])
    return Pulled(message, sequence, deliveries, number, stored_at, pending, nats)
