"""The NATS sender publishes one message per attempt, and waits until the server has it.

Core messages are confirmed by a flush, which all that leave in one turn of the event loop share:
those that are posted wait for it together, in one task.
Those for JetStream are confirmed by their stream, and carry the id of their occurrence, so that
the stream drops a repeated attempt. What cannot leave at once is a failed attempt: nothing waits
here for a server to come back, since its timer may be canceled by then.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, cast

from msgspec.structs import replace

from duetime.clock import Clock
from duetime.delivery import Mail, headers, outcomes
from duetime.delivery.terms import TermsOf, no_terms
from duetime.errors import (
    JetStreamError,
    MessageTooLarge,
    NatsError,
    NatsUnavailable,
    NoResponders,
    NotPermitted,
)
from duetime.nats import Nats, subjects
from duetime.nats.jetstream import JetStream, Outgoing
from duetime.timer import Callback, HttpCallback, Kind, NatsCallback, Outcome, Timer

TARGET = "nats"  # what all topics together are called, which are on one server

_WITHIN = 10.0  # seconds that the server has to confirm a message
# Bytes, at most: 3 kB for the longest correlation id, 1 kB for as many signatures as there can be.
_OUR_HEADERS = 5 * 1024
_NATS_OWN = ("$", "_INBOX.")  # what the subjects of NATS itself begin with
_MOST_REMEMBERED = 8192  # subjects that were found to be legal

_log = logging.getLogger(__name__)
_UNSENT = Outcome(kind=Kind.UNSENT)

# What streams refuse for good: the message is larger than they take.
_TOO_LARGE = frozenset({10054, 10097})


class NatsSender:
    """Delivers NATS callbacks. ``reserved`` are what Duetime's own subjects begin with.

    Whoever could publish there by a timer could pass for Duetime, or for another tenant.
    """

    def __init__(
        self,
        nats: Nats,
        clock: Clock,
        *,
        terms: TermsOf = no_terms,
        reserved: Iterable[str] = (),
    ) -> None:
        self._nats = nats
        self._clock = clock
        self._terms = terms
        self._reserved = tuple(reserved)
        self._jetstream = JetStream(nats, clock)
        self._legal: set[str] = set()  # subjects
        self._posted: list[tuple[Mail, list[Timer]]] = []  # in this turn of the event loop
        self._is_confirming = False  # at the end of it
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def problem(self, callback: Callback) -> str | None:
        if isinstance(callback, HttpCallback):
            return "callback.type: must be nats"
        problem = self._problem_of_subject(callback)
        if problem is None and callback.headers:
            problem = headers.problem_with(callback.headers, in_message=True)
            problem = problem and f"callback.headers: {problem}"
        return problem or self._problem_of_size(callback)

    def target(self, _callback: Callback) -> str:
        return TARGET

    async def send(self, timer: Timer, is_mine: Callable[[], bool]) -> Outcome:
        return await self._send(timer, is_mine)

    def posts(self, _callback: Callback) -> bool:
        return True

    def post(self, mail: Mail) -> None:
        posted: list[Timer] = []
        for timer in mail.timers:
            callback = timer.spec.callback
            if isinstance(callback, HttpCallback) or callback.jetstream:
                self._start(self._send_alone(mail, timer))
                continue
            try:
                outcome = self._publish(timer, callback)
            except NatsError as error:
                outcome = self._failed(callback, error)
            except Exception as error:  # noqa: BLE001 - whatever happens, an attempt has an outcome
                outcome = self._unforeseen(timer, callback, error)
            if outcome is None:
                posted.append(timer)
            else:
                mail.ended((timer,), outcome)
        if posted:
            self._posted.append((mail, posted))
            if not self._is_confirming:
                self._is_confirming = True
                self._start(self._confirm())

    async def close(self) -> None:
        """Send nothing more. The connection is not closed: others speak over it too."""
        self._closed = True

    async def _send(self, timer: Timer, is_mine: Callable[[], bool]) -> Outcome:
        callback = timer.spec.callback
        started = self._clock.monotonic()
        if self._closed:
            return _UNSENT
        if isinstance(callback, HttpCallback):
            return Outcome(kind=Kind.NATS, error="cannot send: callback.type: must be nats")
        try:
            outcome = await self._attempt(timer, callback, is_mine)
        except NatsError as error:
            outcome = self._failed(callback, error)
        except Exception as error:  # noqa: BLE001 - whatever happens, an attempt has an outcome
            outcome = self._unforeseen(timer, callback, error)
        if outcome.kind is Kind.UNSENT:
            return outcome
        latency = self._since(started)
        if outcome.kind is Kind.OK:
            return Outcome(kind=Kind.OK, latency_ms=latency)
        return replace(outcome, latency_ms=latency)

    async def _attempt(
        self, timer: Timer, callback: NatsCallback, is_mine: Callable[[], bool]
    ) -> Outcome:
        if not is_mine():
            return _UNSENT
        if callback.jetstream:
            message = self._message(timer, callback)
            if isinstance(message, Outcome):
                return message
            await self._jetstream.publish(message, _WITHIN)
            return _SENT
        if (outcome := self._publish(timer, callback)) is not None:
            return outcome
        refused = await self._nats.flush(_WITHIN)
        if refused and subject_of(callback) in refused:
            raise NotPermitted(subject_of(callback))
        return _SENT

    def _publish(self, timer: Timer, callback: NatsCallback) -> Outcome | None:
        """Put a message on its way; None if it is, and only a flush tells what comes of it."""
        if self._closed:
            return _UNSENT
        message = self._message(timer, callback)
        if isinstance(message, Outcome):
            return message
        self._nats.publish(message.subject, message.data, headers=message.headers)
        return None

    def _message(self, timer: Timer, callback: NatsCallback) -> Outgoing | Outcome:
        """What is to be sent, or why it cannot be."""
        subject = subject_of(callback)
        if subject not in self._legal and (problem := self._problem_of_subject(callback)):
            return Outcome(kind=Kind.NATS, error=f"cannot send: {problem}")
        terms = self._terms(timer)
        if terms.unsignable is not None and timer.spec.signatures:
            return outcomes.not_signed(terms.unsignable)
        block = headers.of_message(timer, callback, self._clock.now(), terms.secrets)
        return Outgoing(subject, bytes(headers.body(callback)), block)

    async def _confirm(self) -> None:
        """Tell all that were posted in one turn of the loop what came of them."""
        started = self._clock.monotonic()
        posted, self._posted, self._is_confirming = self._posted, [], False
        try:
            refused = await self._nats.flush(_WITHIN)
        except NatsError as error:
            latency = self._since(started)
            for mail, timers in posted:
                self._fail(mail, timers, error, latency)
            return
        sent = Outcome(kind=Kind.OK, latency_ms=self._since(started))
        for mail, timers in posted:
            arrived = timers
            if refused:
                arrived = [each for each in timers if _subject(each) not in refused]
                others = [each for each in timers if _subject(each) in refused]
                self._fail(mail, others, NotPermitted(), sent.latency_ms)
            mail.ended(arrived, sent)

    def _fail(
        self, mail: Mail, timers: Iterable[Timer], error: NatsError, latency: int | None
    ) -> None:
        for timer in timers:
            outcome = self._failed(cast("NatsCallback", timer.spec.callback), error)
            mail.ended((timer,), replace(outcome, latency_ms=latency))

    async def _send_alone(self, mail: Mail, timer: Timer) -> None:
        mail.ended((timer,), await self._send(timer, partial(mail.is_mine, timer)))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _since(self, started: float) -> int:
        return round(1000 * (self._clock.monotonic() - started))

    def _failed(self, callback: NatsCallback, error: NatsError) -> Outcome:
        subject = subject_of(callback)
        if isinstance(error, NotPermitted):
            return Outcome(kind=Kind.NATS, error=f"Duetime may not publish on {subject} there")
        if isinstance(error, MessageTooLarge):
            return Outcome(kind=Kind.NATS, error=f"cannot send: {error}")
        if isinstance(error, NoResponders):
            text = f"no stream of JetStream takes messages on {subject}"
        elif isinstance(error, JetStreamError):
            text = f"JetStream refused the message: {error}"
            if error.code in _TOO_LARGE:
                return Outcome(kind=Kind.NATS, error=text)
        elif isinstance(error, NatsUnavailable) and self._closed:
            lost = "this node stopped before the message was confirmed"
            return Outcome(kind=Kind.LOST, error=lost, retryable=True)
        else:
            text = str(error)
        return Outcome(kind=Kind.NATS, error=text, retryable=True)

    def _unforeseen(self, timer: Timer, callback: NatsCallback, error: Exception) -> Outcome:
        # A callback that was stored past the check: the error's own words may quote a value.
        if problem := self.problem(callback):
            return Outcome(kind=Kind.NATS, error=f"cannot send: {problem}")
        _log.error("timer %s: the attempt failed in an unforeseen way", timer.id, exc_info=error)
        return Outcome(kind=Kind.NATS, error=f"cannot send: {type(error).__name__}", retryable=True)

    def _problem_of_subject(self, callback: NatsCallback) -> str | None:
        subject = subject_of(callback)
        if subject in self._legal:
            return None
        problem = _problem_of_parts(callback) or self._problem_of_owner(subject)
        if problem is None:
            if len(self._legal) >= _MOST_REMEMBERED:
                self._legal.clear()
            self._legal.add(subject)
        return problem

    def _problem_of_owner(self, subject: str) -> str | None:
        if f"{subject}.".startswith(_NATS_OWN):
            return "callback.topic: must not begin with $ or _INBOX: these subjects are NATS's own"
        for own in self._reserved:
            if subjects.is_below(subject, (own,)):
                return f"callback.topic: must not begin with {own}: these subjects are Duetime's"
        return None

    def _problem_of_size(self, callback: NatsCallback) -> str | None:
        size = len(headers.body(callback)) + _OUR_HEADERS
        size += sum(len(name) + len(value) + 4 for name, value in callback.headers.items())
        if size <= self._nats.max_payload:
            return None
        return (
            f"callback.payload: is too large: the NATS server takes messages of "
            f"{self._nats.max_payload} bytes, with their headers"
        )


_SENT = Outcome(kind=Kind.OK)


def _problem_of_parts(callback: NatsCallback) -> str | None:
    """What is wrong with a topic, with a key, or with both together."""
    if problem := subjects.problem_with(callback.topic):
        return f"callback.topic: {problem}"
    if callback.key is None:
        return None
    if problem := subjects.problem_with(callback.key):
        return f"callback.key: {problem}"
    problem = subjects.problem_with(subject_of(callback))
    return problem and f"callback.key: with the topic before it, it {problem}"


def _subject(timer: Timer) -> str:
    return subject_of(cast("NatsCallback", timer.spec.callback))


def subject_of(callback: NatsCallback) -> str:
    """What the message is published on."""
    return callback.topic if callback.key is None else f"{callback.topic}.{callback.key}"
