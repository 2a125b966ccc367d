"""The HTTP sender makes one request per attempt, to an address that the egress guard has permitted.

The order of things is its point: resolve, judge every address, ask whether the claim still holds,
and hand the request to a client that connects only to an address that passed. The whole attempt,
from the name look-up to the end of the answer, takes at most the callback's timeout.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace
from pyreqwest.client import Client
from pyreqwest.exceptions import DetailedPyreqwestError
from pyreqwest.http import Url
from pyreqwest.request import StreamRequest

from duetime.clock import Clock, Millis
from duetime.delivery import headers, outcomes
from duetime.delivery.clients import Clients
from duetime.delivery.egress import VARIABLE as EGRESS_VARIABLE
from duetime.delivery.egress import Egress
from duetime.delivery.problems import problem_of
from duetime.delivery.receiver import Receiver
from duetime.delivery.resolver import Answer, Lookup, Resolver, system_lookup
from duetime.durations import format_duration
from duetime.model import Callback, HttpCallback, Kind, Outcome, Timer

_log = logging.getLogger(__name__)

_NO_NATS = "nats is not configured on this server"
_UNSENT = Outcome(kind=Kind.UNSENT, error="the claim ran out before it was sent")
_CLOSED = Outcome(kind=Kind.UNSENT, error="this node is stopping")


class HttpSender:
    """Delivers HTTP callbacks.

    A ``send`` that is cancelled, or cut short by ``close``, ends at once. But a request that was
    handed over by then goes on, unheard, until its timeout: the library runs it in a thread of its
    own and does not call it back. So such an attempt is lost: its timer must not be handed back as
    if nothing had been sent.

    ``read_at_most`` bounds how much of an answer is read: enough for what receivers say, so that
    the connection can be used again; of a longer answer the rest is not waited for.
    """

    def __init__(
        self,
        clock: Clock,
        egress: Egress,
        *,
        secrets: Sequence[bytes] = (),
        lookup: Lookup = system_lookup,
        connect_timeout: Millis = 10_000,
        read_at_most: int = 64 * 1024,
        most_clients: int = 512,
        most_receivers: int = 8192,
    ) -> None:
        self._clock = clock
        self._egress = egress
        self._secrets = tuple(secrets)
        self._connect_timeout = connect_timeout
        self._read_at_most = read_at_most
        self._most_receivers = most_receivers
        self._resolver = Resolver(clock, lookup)
        self._clients = Clients(
            size=most_clients, connect_timeout=timedelta(milliseconds=connect_timeout)
        )
        self._receivers: dict[str, Receiver] = {}  # by origin
        self._addresses: dict[str, tuple[Url, Receiver]] = {}  # by URL
        self._closed = False

    def problem(self, callback: Callback) -> str | None:
        if isinstance(callback, HttpCallback):
            return problem_of(callback)
        return f"callback.type: {_NO_NATS}"

    def target(self, callback: Callback) -> str:
        if not isinstance(callback, HttpCallback):
            return f"nats:{callback.topic}"
        try:
            return self._address(callback.url)[1].origin
        except ValueError:  # stored past the check; sending it will say what is wrong with it
            return callback.url

    async def send(self, timer: Timer, is_mine: Callable[[], bool]) -> Outcome:
        callback = timer.spec.callback
        started = self._clock.monotonic()
        if self._closed:
            return _CLOSED
        if not isinstance(callback, HttpCallback):
            return Outcome(kind=Kind.NATS, error=_NO_NATS)
        try:
            outcome = await self._attempt(timer, callback, started, is_mine)
        except Exception as error:  # noqa: BLE001 - whatever happens, an attempt has an outcome
            outcome = _unforeseen(timer, callback, error)
        if outcome.latency_ms is None and outcome.kind is not Kind.UNSENT:
            return replace(outcome, latency_ms=self._since(started))
        return outcome

    async def close(self) -> None:
        self._closed = True
        self._resolver.close()
        await self._clients.close()

    async def _attempt(
        self, timer: Timer, callback: HttpCallback, started: float, is_mine: Callable[[], bool]
    ) -> Outcome:
        url, receiver = self._address(callback.url)
        answer = receiver.literal or self._resolver.remembered(receiver.host)
        if answer is None:
            answer = await self._resolver.resolve(receiver.host, callback.timeout / 1000)
        if refusal := self._refusal(receiver, answer, callback.timeout):
            return _CLOSED if self._closed else refusal
        body = None if callback.payload is UNSET else bytes(callback.payload)
        fields = headers.build(timer, callback, body or b"", self._clock.now(), self._secrets)
        outcome = _UNSENT
        for address in receiver.addresses:
            client = self._clients.ready(receiver, address)
            if client is None:
                client = await self._clients.make(receiver, address)
            left = callback.timeout - self._since(started)
            if left <= 0:
                return outcomes.timed_out(callback.timeout)
            request = self._request(client, callback.method, url, fields, body, left=left)
            if self._closed or not is_mine():
                return _CLOSED if self._closed else _UNSENT
            try:
                async with request as response:
                    now, latency = self._clock.now(), self._since(started)
                    return outcomes.answered(response, url, now, latency)
            except DetailedPyreqwestError as error:
                outcome, unsent = outcomes.failed(
                    error, receiver.name(address), callback.timeout, self._connect_timeout
                )
            if unsent or outcome.kind is Kind.TIMEOUT:
                receiver.demote(address)
            if not unsent:
                break
        return outcome

    def _request(
        self,
        client: Client,
        method: str,
        url: Url,
        fields: dict[str, str],
        body: bytes | None,
        *,
        left: Millis,
    ) -> StreamRequest:
        builder = client.request(method, url).headers(fields).timeout(_span(left))
        if body is not None:
            builder = builder.body_bytes(body)
        return builder.streamed_read_buffer_limit(self._read_at_most).build_streamed()

    def _address(self, text: str) -> tuple[Url, Receiver]:
        """A URL, parsed, and its receiver; many timers have the same one."""
        known = self._addresses.get(text)
        if known is None:
            url = Url(text)
            receiver = self._receivers.get(url.origin_ascii)
            if receiver is None:
                receiver = Receiver(url)
                _make_room(self._receivers, self._most_receivers)
                self._receivers[url.origin_ascii] = receiver
            _make_room(self._addresses, self._most_receivers)
            known = self._addresses[text] = (url, receiver)
        return known

    def _refusal(self, receiver: Receiver, answer: Answer | None, waited: Millis) -> Outcome | None:
        """Why the receiver cannot or may not be called at any of its addresses, if so."""
        if answer is None or answer.error is not None:
            reason = answer.error if answer else f"no answer within {format_duration(waited)}"
            text = f"cannot resolve host {receiver.host}: {reason}"
            return Outcome(kind=Kind.DNS, error=text, retryable=True)
        receiver.judge(answer, self._egress)
        if receiver.addresses:
            return None
        address = answer.addresses[0]
        which = address if receiver.literal else f"{address}, the address of {receiver.host},"
        text = f"{which} may not be called; the operator can permit it with {EGRESS_VARIABLE}"
        return Outcome(kind=Kind.EGRESS, error=text)

    def _since(self, started: float) -> Millis:
        return round(1000 * (self._clock.monotonic() - started))


@lru_cache(maxsize=256)
def _span(millis: Millis) -> timedelta:
    return timedelta(milliseconds=millis)


def _make_room(kept: dict[str, Any], most: int) -> None:
    if len(kept) >= most:
        del kept[next(iter(kept))]


def _unforeseen(timer: Timer, callback: HttpCallback, error: Exception) -> Outcome:
    # A callback that was stored past the check: the library's message may quote a header's value.
    if problem := problem_of(callback):
        return Outcome(kind=Kind.NETWORK, error=f"cannot send: {problem}")
    _log.error("timer %s: the attempt failed in an unforeseen way", timer.id, exc_info=error)
    reason = error.args[0] if error.args else type(error).__name__
    return Outcome(kind=Kind.NETWORK, error=f"cannot send: {reason}", retryable=True)
