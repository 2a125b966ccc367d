"""Answering: requests over NATS, each answered where its caller waits, so many of them at once."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from http import HTTPStatus

from duetime import __version__
from duetime.admission import MIB, Admission, Marks
from duetime.api.envelope import Code, Reply, encode, failure
from duetime.api.gate import NOBODY
from duetime.clock import Clock, sleep, time_limit
from duetime.commands.desk import READS, VERBS, Answer, Desk
from duetime.commands.prefixes import Prefix
from duetime.commands.replies import LEAST_FAILURE, headers_of
from duetime.errors import MessageTooLarge, NatsError, Unavailable
from duetime.nats import Message, Nats
from duetime.nats.service import Endpoint, MicroService

log = logging.getLogger("duetime.commands")

# What is under way at once on a node. Beyond it, requests are refused: none stands in line here.
MARKS = Marks(10_000, 64 * MIB, 0, 0)

# Answers that are kept back from those who ask far too often. Beyond it they are not kept.
MOST_HELD = 10_000

FLUSHED_WITHIN = 5.0  # seconds that the server has to take note of what we listen to

DESCRIPTION = "Timers: create, get, update, cancel"


class Answering:
    """Answers requests."""

    def __init__(
        self,
        nats: Nats,
        desk: Desk,
        clock: Clock,
        *,
        name: str,
        prefixes: Iterable[Prefix],
        reserved: Iterable[str] = (),
        marks: Marks = MARKS,
    ) -> None:
        self._nats = nats
        self._desk = desk
        self._clock = clock
        self._prefixes = list(prefixes)
        self._admission = Admission("too many requests are under way", clock, marks)
        self._service = MicroService(
            nats,
            clock,
            name=name,
            version=__version__,
            description=DESCRIPTION,
            reserved=reserved,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._held = 0

    async def start(self) -> None:
        """Listen; when this returns, requests are heard."""
        is_one = len(self._prefixes) == 1
        for prefix in self._prefixes:
            for verb in VERBS:
                self._service.offer(
                    verb if is_one else f"{verb}-{prefix.name}",
                    f"{prefix.pattern}.timers.{verb}",
                    partial(self._hear, prefix, verb),
                    {} if prefix.tenant is None else {"tenant": prefix.tenant},
                )
        self._service.start()
        with suppress(NatsError):  # then it listens as soon as there is a connection again
            await self._nats.flush(FLUSHED_WITHIN)

    async def stop(self, within: float) -> None:
        """Take no more requests, and answer those that are here, within so many seconds."""
        with suppress(TimeoutError):
            async with time_limit(self._clock, within):
                await self._service.stop(within)
                await asyncio.gather(*self._tasks, return_exceptions=True)

    def _hear(self, prefix: Prefix, verb: str, endpoint: Endpoint, message: Message) -> None:
        if verb in READS and not message.reply:
            return  # nobody would hear the answer
        if not self._admission.lets_in(1, len(message.data)):
            refusal = Unavailable("too many requests are under way; nothing was written, try again")
            self._tell(endpoint, message.reply, failure(refusal, NOBODY), 0.0)
            return
        task = asyncio.create_task(self._work(prefix, verb, endpoint, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, prefix: Prefix, verb: str, endpoint: Endpoint, message: Message) -> None:
        began_at = self._clock.monotonic()
        try:
            tenant = prefix.tenant_of(message.subject)
            answer = await self._desk.answer(verb, tenant, message)
        finally:
            self._admission.leave(1, len(message.data))
        took = self._clock.monotonic() - began_at
        to = message.reply
        del message  # it may be large, and others wait too
        if answer.hold_for:
            await self._hold(answer)
        self._tell(endpoint, to, answer.reply, took)

    async def _hold(self, answer: Answer) -> None:
        if self._held < MOST_HELD:
            self._held += 1
            try:
                await sleep(self._clock, answer.hold_for)
            finally:
                self._held -= 1

    def _tell(self, endpoint: Endpoint, to: str, reply: Reply, took: float) -> None:
        endpoint.count(took, _error_of(reply))
        if not to:
            return
        try:
            self._send(to, reply)
        except NatsError as error:
            log.debug("an answer could not be sent: %s", error)

    def _send(self, to: str, reply: Reply) -> None:
        try:
            self._nats.publish(to, encode(reply), headers=headers_of(reply))
        except MessageTooLarge:
            most = self._nats.max_payload
            text = f"the answer is larger than the {most} bytes that NATS takes; ask over HTTP"
            self._send(to, Reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, code=Code.TOO_LARGE))


def _error_of(reply: Reply) -> str:
    """What stats say of an answer: whoever may ask for them need not be who was answered."""
    if reply.status < LEAST_FAILURE:
        return ""
    return f"{reply.status} {HTTPStatus(reply.status).phrase}"
