"""A connection to NATS: a link to one of the servers, and another one whenever it is lost.

What is published while there is none is refused, not kept: its sender was told that it did not
leave, and may have changed their mind since.
"""

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import random, shuffle
from typing import NamedTuple

from duetime.clock import Clock, sleep, time_limit
from duetime.errors import NatsUnavailable, NoResponders
from duetime.nats import Ending, Message, Subscription, headers, servers
from duetime.nats.credentials import Credentials
from duetime.nats.link import Link
from duetime.nats.parser import Delivery
from duetime.nats.servers import Server

log = logging.getLogger("duetime.nats")

KEEPALIVE = 20.0  # seconds between two PINGs
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
PATIENCE = 5.0  # seconds that one server has to let us in
FLUSHED_WITHIN = 2.0  # seconds that the server has for the last of it, when it is closed
_STEADY = 5.0  # seconds after which a link counts as one that held
_MOST_OTHERS = 64  # servers of a cluster that are remembered
_MOST_TOLD = 20  # complaints of one server that are logged
_NOBODY = 503

_NO_HEADERS: dict[str, str] = {}


class _Listener(NamedTuple):
    """Somebody who listens, as every new server is told."""

    number: int
    subject: str
    queue: str
    hear: Callable[[Message], None]

    @property
    def line(self) -> bytes:
        queue = f" {self.queue}" if self.queue else ""
        return f"SUB {self.subject}{queue} {self.number}\r\n".encode()


class _Ending:
    """What ends a subscription."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end: Callable[[], None] | None = end

    def end(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end()


class _Listening(_Ending):
    """What ends a subscription, or lets it end by itself."""

    def __init__(self, end: Callable[[], None], leave: Callable[[], None]) -> None:
        super().__init__(end)
        self._leave = leave

    def leave(self) -> None:
        if self._end is not None:
            self._leave()


class Connection:
    """Speaks to one of several servers.

    With ``tls`` it speaks to none without it; otherwise to those whose URL asks for it, or who
    want it themselves.
    """

    def __init__(
        self,
        urls: Iterable[str],
        clock: Clock,
        *,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        name: str = "duetime",
    ) -> None:
        self._servers = [servers.read(url) for url in urls]
        self._others: list[Server] = []
        self._clock = clock
        self._credentials = credentials or Credentials()
        self._tls = tls
        self._name = name
        self._link: Link | None = None
        self._ended = asyncio.Event()  # the link that there was
        self._max_payload = 1024 * 1024
        self._keeper: asyncio.Task[None] | None = None
        self._listeners: dict[int, _Listener] = {}
        self._leaving: set[int] = set()  # those who only hear the last of it
        self._last_number = 0
        self._watchers: dict[int, Callable[[], None]] = {}
        self.inbox = f"_INBOX.{secrets.token_hex(11)}"  # below which answers come to us alone
        self._answers: dict[str, asyncio.Future[Message]] = {}
        self._last_answer = 0
        self._told: set[str] = set()  # the complaints of a server that were logged
        self._is_closing = False

    @property
    def is_connected(self) -> bool:
        return self._link is not None

    @property
    def max_payload(self) -> int:
        return self._max_payload

    @property
    def server(self) -> str:
        """The address of the one that it speaks to; nothing if there is none."""
        return self._link.server.shown if self._link is not None else ""

    async def connect(self, within: float = 2 * PATIENCE, *, insists: bool = True) -> None:
        """Connect for the first time; from then on a lost link is replaced in the background.

        NatsUnavailable tells which servers were tried, and why each failed. Whoever does not insist
        goes on without one, until there is one.
        """
        try:
            self._adopt(await self._open_any(within))
        except NatsUnavailable:
            if insists:
                raise
        else:
            log.info("connected to NATS at %s", self.server)
        self._keeper = asyncio.create_task(self._keep(), name="nats")

    def publish(self, subject: str, data: bytes, *, headers: bytes = b"", reply: str = "") -> None:
        link = self._link
        if link is None:
            raise NatsUnavailable("there is no connection to a NATS server")
        to = f"{subject} {reply}" if reply else subject
        size = len(data)
        if headers:
            count = len(headers)
            link.publish(f"HPUB {to} {count} {count + size}\r\n".encode(), headers, data)
        else:
            link.publish(f"PUB {to} {size}\r\n".encode(), b"", data)

    async def flush(self, within: float) -> frozenset[str]:
        if self._link is None:
            raise NatsUnavailable("there is no connection to a NATS server")
        return await self._link.answered(within)

    async def request(
        self, subject: str, data: bytes, *, headers: bytes = b"", within: float
    ) -> Message:
        if not self._last_answer:
            self.subscribe(f"{self.inbox}.r.*", self._hear_answer)
        self._last_answer += 1
        reply = f"{self.inbox}.r.{self._last_answer}"
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[reply] = answer
        try:
            self.publish(subject, data, headers=headers, reply=reply)
            async with time_limit(self._clock, within):
                message = await answer
        except TimeoutError:
            raise NatsUnavailable(f"nobody answered on {subject} in time") from None
        finally:
            del self._answers[reply]
        if message.status == _NOBODY and not message.data:
            raise NoResponders(f"nobody listens on {subject}")
        return message

    def subscribe(
        self, subject: str, hear: Callable[[Message], None], *, queue: str = ""
    ) -> Subscription:
        self._last_number += 1
        listener = _Listener(self._last_number, subject, queue, hear)
        self._listeners[listener.number] = listener
        if self._link is not None:
            self._link.put(listener.line)
        return _Listening(
            end=lambda: self._unsubscribe(listener.number),
            leave=lambda: self._leave(listener.number),
        )

    def when_lost(self, tell: Callable[[], None]) -> Ending:
        self._last_number += 1
        number = self._last_number
        self._watchers[number] = tell
        return _Ending(lambda: self._forget_watcher(number))

    async def close(self, within: float = FLUSHED_WITHIN) -> None:
        self._is_closing = True
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
            self._keeper = None
        if self._link is not None:
            with suppress(NatsUnavailable):
                await self.flush(min(within, FLUSHED_WITHIN))
        if (link := self._link) is not None:
            link.close()
            await link.gone()

    def _forget_watcher(self, number: int) -> None:
        del self._watchers[number]

    def _unsubscribe(self, number: int) -> None:
        self._leave(number)
        self._leaving.discard(number)
        del self._listeners[number]

    def _leave(self, number: int) -> None:
        if number in self._leaving:
            return
        self._leaving.add(number)
        if self._link is not None:
            self._link.put(b"UNSUB %d\r\n" % number)

    def _hear(self, delivery: Delivery) -> None:
        number, subject, reply, block, data = delivery
        listener = self._listeners.get(number)
        if listener is None:
            return  # it has just ended
        said, status = headers.read(block) if block else (_NO_HEADERS, None)
        where = subject.decode("utf-8", "replace")
        message = Message(where, data, reply.decode("utf-8", "replace"), said, status)
        try:
            listener.hear(message)
        except Exception:
            log.exception("what came in on %s could not be taken", where)

    def _hear_answer(self, message: Message) -> None:
        answer = self._answers.get(message.subject)
        if answer is not None and not answer.done():
            answer.set_result(message)

    def _changed(self, link: Link) -> None:
        """Remember what a server tells of others, for when it is gone."""
        self._max_payload = link.info.max_payload
        server = link.server._replace(is_tls=link.server.is_tls or link.is_tls)
        self._others = server.others(link.info.connect_urls[:_MOST_OTHERS])

    def _failed(self, said: str) -> None:
        # A subject that is refused is refused many times, and there may be many of them.
        if said not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(said)
            log.warning("the NATS server complains: %s", said)

    def _lost(self, link: Link, why: str) -> None:
        if link is not self._link:
            return  # it never was ours
        self._link = None
        self._told.clear()
        self._ended.set()
        if not self._is_closing:
            log.warning(
                "the connection to NATS at %s was lost: %s; connecting again",
                link.server.shown,
                why,
            )
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(
                    NatsUnavailable(f"the connection to the NATS server was lost: {why}")
                )
        for tell in [*self._watchers.values()]:
            tell()

    def _adopt(self, link: Link) -> None:
        """Speak over this link from now on; whoever listens goes on listening."""
        self._ended.clear()
        self._link = link
        self._changed(link)
        for listener in self._listeners.values():
            if listener.number not in self._leaving:
                link.put(listener.line)

    async def _keep(self) -> None:
        """Replace the link whenever it is lost, and see to it that a loss is noticed."""
        failures = 0
        while True:
            link = self._link
            if link is not None:
                if not await self._clock.wait(self._ended, KEEPALIVE):
                    link.tick()
                    continue
                is_steady = self._clock.monotonic() - link.since >= _STEADY
                failures = 0 if is_steady else failures + 1
            failures = await self._replace(failures)

    async def _replace(self, failures: int) -> int:
        """Try until there is a link again; links that break at once are tried less often too."""
        began, has_told = self._clock.monotonic(), False
        while True:
            if failures:
                pause = min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE)
                await sleep(self._clock, pause * (1 + random()) / 2)  # noqa: S311
            try:
                link = await self._open_any(PATIENCE * (len(self._servers) + len(self._others)))
            except NatsUnavailable as error:
                failures = min(failures + 1, 10)
                if not has_told:
                    log.warning("%s; trying again and again", error)
                has_told = True
                continue
            self._adopt(link)
            seconds = self._clock.monotonic() - began
            log.info("connected to NATS again, at %s, after %.1f s", self.server, seconds)
            return failures

    async def _open_any(self, within: float) -> Link:
        """A link to any server that can be reached, each tried once."""
        until = self._clock.monotonic() + within
        candidates = [*dict.fromkeys((*self._servers, *self._others))]
        shuffle(candidates)
        reasons = []
        for server in candidates:
            link = Link(
                server,
                self._clock,
                hear=self._hear,
                lost=self._lost,
            )
            left = min(PATIENCE, max(until - self._clock.monotonic(), 0.0))
            try:
                await link.open(self._credentials, self._tls, self._name, left)
            except NatsUnavailable as error:
                reasons.append(f"{server.shown}: {error}")
            else:
                if not link.is_lost:
                    link.failed, link.changed = self._failed, self._changed
                    return link
                reasons.append(f"{server.shown}: it closed the connection")
        raise NatsUnavailable(f"no NATS server can be reached ({'; '.join(reasons)})")
