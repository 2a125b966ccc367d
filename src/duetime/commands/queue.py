"""The queue: creates that wait in a JetStream stream, taken by whichever node has time for them.

A create is acknowledged only after its timer is stored. Should a node die in between, it comes
again, to this node or another, and finds the timer there: each create has a key, its own or one
that is made of its place in the stream. What can never be done becomes a dead letter; what cannot
be done now comes again later.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from http import HTTPStatus

from duetime.api.envelope import Reply
from duetime.clock import Clock
from duetime.commands.dead_letters import DeadLetters
from duetime.commands.desk import Desk
from duetime.commands.prefixes import Prefix
from duetime.errors import InvalidRequest, NatsError
from duetime.nats import Nats
from duetime.nats.jetstream import JetStream, Pulled
from duetime.nats.subjects import covers
from duetime.requests import check_key

log = logging.getLogger("duetime.commands")

CONSUMER = "duetime"  # what all nodes share
BATCH = 200  # creates that are taken at once: they share a write
MOST_BYTES = 16 * 1024 * 1024  # of those
WAIT = 1.0  # seconds that a pass waits for one to come; a node that stops waits for that
ACK_WAIT = 30.0  # seconds after which one comes again whose node has not said anything
TELL_EVERY = 10.0  # seconds after which its node says that it is still at it

FIRST_PAUSE = 0.5  # seconds until one comes again that could not be done, twice as many each time
LONGEST_PAUSE = 30.0
REST = 1.0  # seconds without a pass when the store could not take what the last one brought

_NS = 1_000_000_000


class Queue:
    """Takes creates from a stream."""

    def __init__(
        self,
        nats: Nats,
        jetstream: JetStream,
        desk: Desk,
        clock: Clock,
        *,
        stream: str,
        prefixes: Iterable[Prefix],
        wait: float = WAIT,
        when_stored: Callable[[], None] = lambda: None,
    ) -> None:
        self._nats = nats
        self._jetstream = jetstream
        self._desk = desk
        self._clock = clock
        self._stream = stream
        self._prefixes = {prefix.pattern: prefix for prefix in prefixes}
        self._dead_letters = DeadLetters(jetstream, stream)
        self._wait = wait
        self._when_stored = when_stored  # called before a create is acknowledged
        self._is_ready = False
        self._is_failing = False
        self._has_left = False

    async def step(self) -> float:
        """Take what is there; the answer is how many seconds later to look again."""
        try:
            await self._prepare()
            most_bytes = max(MOST_BYTES, 2 * self._nats.max_payload)
            pulled = await self._jetstream.fetch(
                self._stream, CONSUMER, BATCH, self._wait, max_bytes=most_bytes
            )
        except NatsError as error:
            return self._failed(error)
        if self._is_failing:
            self._is_failing = False
            log.info("commands are taken from the stream %s again", self._stream)
        return await self._take(pulled) if pulled else 0.0

    def _failed(self, error: NatsError) -> float:
        self._is_ready = False
        if not self._is_failing:
            self._is_failing = True
            log.warning(
                "commands cannot be taken from the stream %s: %s; it is tried again and again",
                self._stream,
                error,
            )
        return REST

    async def _prepare(self) -> None:
        """See to it that the stream and its consumer are there."""
        if self._is_ready:
            return
        wanted = [f"{pattern}.queue.*" for pattern in self._prefixes]
        await self._jetstream.ensure_stream(
            {
                "name": self._stream,
                "subjects": wanted,
                "storage": "file",
                "retention": "workqueue",  # what is done with is gone; dead letters stay
                "discard": "new",
            }
        )
        config = (await self._jetstream.stream_info(self._stream))["config"]
        for subject in wanted:
            if not any(covers(each, subject) for each in config.get("subjects", ())):
                log.warning("the stream %s does not take %s; add it there", self._stream, subject)
        filters = sorted(f"{pattern}.queue.create" for pattern in self._prefixes)
        consumer = {
            "durable_name": CONSUMER,
            "ack_policy": "explicit",
            "ack_wait": int(ACK_WAIT * _NS),
            "max_deliver": -1,
            # One that comes again later counts too: those of one tenant must not hold up others.
            "max_ack_pending": -1,
            "filter_subjects": filters,
        }
        made = (await self._jetstream.ensure_consumer(self._stream, consumer))["config"]
        if sorted(_filters(made)) != filters:  # NATS_TENANTS was another
            made.pop("filter_subject", None)
            changed = {**made, "filter_subjects": filters}
            await self._jetstream.update_consumer(self._stream, changed)
        self._is_ready = True

    async def _take(self, pulled: Sequence[Pulled]) -> float:
        """Create all of them at once, and tell the stream while that takes its time."""
        ended = asyncio.Event()
        under_way = {asyncio.create_task(self._create(each)): each for each in pulled}
        gathered = asyncio.gather(*under_way)
        gathered.add_done_callback(lambda _: ended.set())
        while not await self._clock.wait(ended, TELL_EVERY):
            for task, each in under_way.items():
                if not task.done():
                    with suppress(NatsError):  # then it comes again
                        each.in_progress()
        return max(gathered.result())

    async def _create(self, pulled: Pulled) -> float:
        """Create one, and say what became of it; the answer is how long to rest after that."""
        message = pulled.message
        prefix = self._prefix_of(message.subject)
        if prefix is None:
            self._leave(pulled)
            return 0.0
        answer = await self._desk.answer(
            "create",
            prefix.tenant_of(message.subject),
            message,
            key=self._key_of(pulled),
            # Rounded up, so that nothing is early.
            sent_at=-(-pulled.stored_at // 1_000_000),
        )
        reply = answer.reply
        with suppress(NatsError):  # whatever cannot be said: it comes again, and finds its timer
            if reply.status < HTTPStatus.BAD_REQUEST:
                self._when_stored()
                pulled.ack()
            elif _may_be_done_later(reply):
                pulled.nak(_pause(reply, pulled.deliveries))
                return REST if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR else 0.0
            else:
                await self._bury(pulled, reply)
        return 0.0

    async def _bury(self, pulled: Pulled, reply: Reply) -> None:
        try:
            await self._dead_letters.put(pulled, reply)
        except NatsError as error:
            log.warning("a dead letter could not be stored, and will be again: %s", error)
            pulled.nak(_pause(reply, pulled.deliveries))
        else:
            pulled.term(reply.message)

    def _prefix_of(self, subject: str) -> Prefix | None:
        before = subject.rsplit(".", 2)[0]
        of_all = f"{before.rpartition('.')[0]}.*"
        return self._prefixes.get(before) or self._prefixes.get(of_all)

    def _leave(self, pulled: Pulled) -> None:
        """Leave one to nodes whose NATS_TENANTS is another: they have had it brought to all."""
        if not self._has_left:
            self._has_left = True
            log.warning(
                "%s is no subject of any tenant here; it is left to other nodes",
                pulled.message.subject,
            )
        with suppress(NatsError):
            pulled.nak(FIRST_PAUSE)

    def _key_of(self, pulled: Pulled) -> str:
        """What makes one timer of a create that comes twice, if it has no key of its own."""
        given = pulled.message.headers.get("Nats-Msg-Id")
        if given is not None:
            with suppress(InvalidRequest):
                check_key(given, "Nats-Msg-Id")
                return given
        # With the time, for a stream that is made anew counts from the beginning.
        return f"{self._stream}-{pulled.sequence}-{pulled.stored_at}"


def _filters(config: dict[str, object]) -> list[str]:
    one, many = config.get("filter_subject"), config.get("filter_subjects")
    if isinstance(many, list):
        return [str(each) for each in many]
    return [] if one is None else [str(one)]


def _may_be_done_later(reply: Reply) -> bool:
    return (
        reply.status == HTTPStatus.TOO_MANY_REQUESTS
        or reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    )


def _pause(reply: Reply, deliveries: int) -> float:
    asked = next((float(value) for name, value in reply.headers if name == b"retry-after"), 0.0)
    return max(asked, min(FIRST_PAUSE * float(2 ** min(deliveries - 1, 10)), LONGEST_PAUSE))
