"""The HTTP sender makes one request per attempt, to an address that the egress guard has permitted.

The order of things is its point: resolve, judge every address, ask whether the claim still holds,
and write the request on a connection to an address that passed. The whole attempt, from the name
look-up to the end of the answer, takes at most the callback's timeout.
"""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace
from pyreqwest.http import Url

from duetime.clock import Clock, Millis
from duetime.delivery import headers, outcomes
from duetime.delivery.answers import NoAnswer, NothingCame
from duetime.delivery.connection import Connection
from duetime.delivery.connections import Connections
from duetime.delivery.egress import Egress
from duetime.delivery.opening import TlsFailed
from duetime.delivery.problems import problem_of
from duetime.delivery.receiver import Receiver
from duetime.delivery.resolver import Lookup, Resolver, system_lookup
from duetime.delivery.terms import TermsOf, no_terms
from duetime.timer import Callback, HttpCallback, Kind, Outcome, Timer

_log = logging.getLogger(__name__)

_NO_NATS = "nats is not configured on this server"
_UNSENT = Outcome(kind=Kind.UNSENT)


class _ParsedUrl(NamedTuple):
    """A URL as it is needed for sending; many timers have the same one."""

    parsed: Url
    receiver: Receiver
    path: str  # with the query, as requests name it
    host: str  # as requests name it


class _Request(NamedTuple):
    """One attempt's request, and what is wanted of its answer."""

    url: _ParsedUrl
    head: bytes
    callback: HttpCallback
    keep: int  # so many bytes of the answer's body
    started: float  # on the monotonic clock


class HttpSender:
    """Delivers HTTP callbacks.

    A ``send`` that is cancelled, or cut short by ``close``, ends at once, and its connection with
    it. But the receiver may have the request by then, so such an attempt is lost: its timer must
    not be handed back as if nothing had been sent.

    ``read_at_most`` bounds how much of an answer is read: enough for what receivers say, so that
    the connection can be used again; of a longer answer the rest is not waited for.
    """

    def __init__(
        self,
        clock: Clock,
        egress: Egress,
        *,
        terms: TermsOf = no_terms,
        lookup: Lookup = system_lookup,
        connect_timeout: Millis = 10_000,
        read_at_most: int = 64 * 1024,
        most_at_rest: int = 512,
        most_receivers: int = 8192,
    ) -> None:
        self._clock = clock
        self._egress = egress
        self._terms = terms
        self._connect_timeout = connect_timeout / 1000
        self._most_receivers = most_receivers
        self._resolver = Resolver(clock, lookup)
        self._connections = Connections(clock, most_at_rest=most_at_rest, read_at_most=read_at_most)
        self._receivers: dict[str, Receiver] = {}  # by origin
        self._urls: dict[str, _ParsedUrl] = {}
        self._closed = False

    def problem(self, callback: Callback) -> str | None:
        if isinstance(callback, HttpCallback):
            return problem_of(callback)
        return f"callback.type: {_NO_NATS}"

    def target(self, callback: Callback) -> str:
        if not isinstance(callback, HttpCallback):
            return "nats"  # all topics are on one server
        try:
            return self._parsed(callback.url).receiver.target
        except ValueError:  # stored past the check; sending it will say what is wrong with it
            return callback.url

    async def send(self, timer: Timer, is_mine: Callable[[], bool]) -> Outcome:
        callback = timer.spec.callback
        started = self._clock.monotonic()
        if self._closed:
            return _UNSENT
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
        self._connections.close()

    async def _attempt(
        self, timer: Timer, callback: HttpCallback, started: float, is_mine: Callable[[], bool]
    ) -> Outcome:
        url = self._parsed(callback.url)
        receiver = url.receiver
        answer = receiver.literal or self._resolver.remembered(receiver.host)
        if answer is None:
            answer = await self._resolver.resolve(receiver.host, callback.timeout / 1000)
        if answer is None or answer.error is not None:
            failed = outcomes.unresolved(receiver.host, answer, callback.timeout)
            return _UNSENT if self._closed else failed
        receiver.judge(answer, self._egress)
        if not receiver.addresses:
            return _UNSENT if self._closed else outcomes.not_permitted(receiver, answer)
        terms = self._terms(timer)
        fields = headers.build(timer, callback, self._clock.now(), terms.secrets)
        head = headers.written(callback.method, url.path, url.host, fields)
        request = _Request(url, head, callback, timer.spec.response_bytes, started)
        return await self._try_addresses(request, is_mine)

    async def _try_addresses(self, request: _Request, is_mine: Callable[[], bool]) -> Outcome:
        """Send the request to the first address that a connection can be made to."""
        receiver = request.url.receiver
        outcome = _UNSENT
        for address in receiver.addresses:
            if (left := self._left(request)) <= 0:
                return outcomes.timed_out(request.callback.timeout)
            connection = self._connections.take(receiver, address)
            if connection is None:
                # To make one takes a while: no receiver is called for what cannot be sent then.
                if not self._may_send(is_mine):
                    return _UNSENT
                within = min(left, self._connect_timeout)
                try:
                    connection = await self._connections.open(receiver, address, within)
                except (OSError, TlsFailed) as error:
                    outcome = outcomes.not_connected(error, receiver.name(address), within)
                    receiver.demote(address)
                    continue
            if not self._may_send(is_mine):
                self._connections.give_back(connection)
                return _UNSENT
            return await self._exchange(connection, request)
        return outcome

    async def _exchange(self, connection: Connection, request: _Request) -> Outcome:
        url, head, callback, keep, started = request
        left, is_head = self._left(request), callback.method == "HEAD"
        _, address = connection.route
        try:
            response = await connection.exchange(
                head, headers.body(callback), left, is_head=is_head, keep=keep
            )
        except TimeoutError:
            url.receiver.demote(address)
            return outcomes.timed_out(callback.timeout)
        except NoAnswer as error:
            if isinstance(error, NothingCame):
                self._connections.was_cut(connection)
            return outcomes.unanswered(error, url.receiver.name(address))
        finally:
            self._connections.give_back(connection)
        return outcomes.answered(response, url.parsed, self._clock, self._since(started))

    def _may_send(self, is_mine: Callable[[], bool]) -> bool:
        return not self._closed and is_mine()

    def _left(self, request: _Request) -> float:
        """How many seconds of the callback's timeout are left."""
        return request.callback.timeout / 1000 - (self._clock.monotonic() - request.started)

    def _parsed(self, text: str) -> _ParsedUrl:
        """A URL, parsed, and its receiver."""
        known = self._urls.get(text)
        if known is None:
            url = Url(text)
            receiver = self._receivers.get(url.origin_ascii)
            if receiver is None:
                receiver = Receiver(url)
                _make_room(self._receivers, self._most_receivers)
                self._receivers[url.origin_ascii] = receiver
            _make_room(self._urls, self._most_receivers)
            known = self._urls[text] = _ParsedUrl(url, receiver, *_asked(url))
        return known

    def _since(self, started: float) -> Millis:
        return round(1000 * (self._clock.monotonic() - started))


def _asked(url: Url) -> tuple[str, str]:
    """The path with its query, and the host with a port that is not the usual one."""
    path = url.path if url.query_string is None else f"{url.path}?{url.query_string}"
    return path, f"{url.host_str}:{url.port}" if url.port else str(url.host_str)


def _make_room(kept: dict[str, Any], most: int) -> None:
    if len(kept) >= most:
        del kept[next(iter(kept))]


def _unforeseen(timer: Timer, callback: HttpCallback, error: Exception) -> Outcome:
    # A callback that was stored past the check: the error's own words may quote a value.
    if problem := problem_of(callback):
        return Outcome(kind=Kind.NETWORK, error=f"cannot send: {problem}")
    _log.error("timer %s: the attempt failed in an unforeseen way", timer.id, exc_info=error)
    said = error.args[0] if len(error.args) == 1 else None
    reason = said or type(error).__name__
    return Outcome(kind=Kind.NETWORK, error=f"cannot send: {reason}", retryable=True)
