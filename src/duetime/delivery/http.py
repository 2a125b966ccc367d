"""The HTTP sender makes one request per attempt, to an address that the egress guard has permitted.

The order of things is its point: resolve, judge every address, ask whether the claim still holds,
and write the request on a connection to an address that passed. The whole attempt, from the name
look-up to the end of the answer, takes at most the callback's timeout.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

from msgspec import Raw, Struct
from msgspec.structs import replace
from pyreqwest.http import Url

from duetime.clock import Clock, Millis
from duetime.delivery import Errand, headers, outcomes
from duetime.delivery.answers import NoAnswer, NothingCame, Response, Unfinished
from duetime.delivery.capture import Capture, capture_of
from duetime.delivery.client_certificate import ClientCertificate
from duetime.delivery.connection import Connection
from duetime.delivery.connections import Connections
from duetime.delivery.credential import Credentials, NoCredentials
from duetime.delivery.egress import Egress
from duetime.delivery.lookups import Lookup
from duetime.delivery.oauth2 import MOST_BYTES, Tokens
from duetime.delivery.opening import TlsFailed
from duetime.delivery.presenting import Presented, Presenting
from duetime.delivery.problems import problem_of
from duetime.delivery.proxy import Proxy, ProxyFailed
from duetime.delivery.receiver import Receiver
from duetime.delivery.resolver import Answer, Resolver, system_lookup
from duetime.delivery.terms import TermsOf, no_terms
from duetime.timer import Callback, HttpCallback, Kind, Outcome, Timer

_log = logging.getLogger(__name__)

_NO_NATS = "nats is not configured on this server; whoever runs it sets NATS_URL"
_UNSENT = Outcome(kind=Kind.UNSENT)


class _ParsedUrl(NamedTuple):
    """A URL as it is needed for sending; many timers have the same one."""

    parsed: Url
    receiver: Receiver
    path: str  # with the query, as requests name it
    host: str  # as requests name it


class _Request(Struct, gc=False):
    """One attempt's request, and what is wanted of its answer."""

    url: _ParsedUrl
    head: bytes
    callback: HttpCallback
    capture: Capture
    started: float  # on the monotonic clock
    certificate: ClientCertificate | None = None

    def __repr__(self) -> str:
        """Show no secret, wherever this is printed: its head may have one."""
        return "_Request(...)"


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
        credentials: Credentials | None = None,
        lookup: Lookup = system_lookup,
        proxy: Proxy | None = None,
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
        self._are_names_the_proxys = proxy is not None and proxy.resolves
        self._connections = Connections(
            clock,
            most_at_rest=most_at_rest,
            read_at_most=read_at_most,
            tunnel=partial(proxy.tunnel, self._resolver) if proxy else None,
        )
        self._tokens = Tokens(clock, self._ask)
        self._presenting = Presenting(credentials or NoCredentials(), self._tokens, clock)
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

    def begin(self, errand: Errand) -> bool:
        """Send at once, where the receiver is known and a connection to it is at rest.

        Nearly all of a burst is sent like this: a task that waits for the answer, through all of
        the calls that ``send`` is made of, would cost as much again.
        """
        callback = errand.timer.spec.callback
        if not isinstance(callback, HttpCallback) or callback.credential is not None:
            return False
        started = self._clock.monotonic()
        url = self._urls.get(callback.url)
        if url is None or self._closed:
            return False
        connection, is_mine = None, False
        request: _Request | Outcome = _UNSENT
        try:
            connection = self._at_hand(url.receiver)
            if connection is not None:
                request = self._request(errand.timer, callback, url, started)
                is_mine = isinstance(request, _Request) and errand.is_mine()
        except Exception:  # noqa: BLE001 - who sends it will say what is wrong
            request = _UNSENT
        if connection is None:
            return False
        if isinstance(request, Outcome) or not is_mine:
            self._connections.give_back(connection, was_used=False)
            if isinstance(request, Outcome):
                return False
            errand.ended(_UNSENT)
            return True
        connection.begin(
            request.head,
            headers.body(callback),
            callback.timeout / 1000,
            partial(self._on_end, errand, connection, request),
            is_head=callback.method == "HEAD",
            keep=request.capture.wanted,
        )
        return True

    def _at_hand(self, receiver: Receiver) -> Connection | None:
        """A connection to a receiver that may be called, if nothing has to be waited for."""
        answer = self._known(receiver)
        if answer is None or answer.error is not None:
            return None
        receiver.judge(answer, self._egress)
        if not receiver.addresses:
            return None
        return self._connections.take(receiver, receiver.addresses[0])

    def _on_end(
        self,
        errand: Errand,
        connection: Connection,
        request: _Request,
        answer: Response | Exception,
    ) -> None:
        """Tell what came of what was begun."""
        try:
            if isinstance(answer, Response):
                outcome = self._answered(request, answer)
            elif isinstance(answer, TimeoutError | NoAnswer):
                outcome = self._unanswered(connection, request, answer)
            else:
                outcome = _unforeseen(errand.timer, request.callback, answer)
        except Exception as error:  # noqa: BLE001 - as in send
            outcome = _unforeseen(errand.timer, request.callback, error)
        self._connections.give_back(connection)
        if outcome.latency_ms is None:
            outcome = replace(outcome, latency_ms=self._since(request.started))
        errand.ended(outcome)

    async def close(self) -> None:
        self._closed = True
        self._resolver.close()
        self._tokens.close()
        self._connections.close()

    async def _attempt(
        self, timer: Timer, callback: HttpCallback, started: float, is_mine: Callable[[], bool]
    ) -> Outcome:
        url = self._parsed(callback.url)
        answer = self._known(url.receiver) or await self._look_up(url.receiver, callback)
        if (problem := self._out_of_reach(url.receiver, answer, callback)) is not None:
            return _UNSENT if self._closed else problem
        if callback.credential is not None:
            return await self._deliver_with_credential(timer, callback, url, started, is_mine)
        return await self._deliver(self._request(timer, callback, url, started), is_mine)

    def _known(self, receiver: Receiver) -> Answer | None:
        """Where a receiver is, if that need not be looked up."""
        if receiver.literal is not None:
            return receiver.literal
        if self._are_names_the_proxys:
            return receiver.unresolved
        return self._resolver.remembered(receiver.host)

    async def _look_up(self, receiver: Receiver, callback: HttpCallback) -> Answer | None:
        return await self._resolver.resolve(receiver.host, callback.timeout / 1000)

    def _out_of_reach(
        self, receiver: Receiver, answer: Answer | None, callback: HttpCallback
    ) -> Outcome | None:
        """Why a receiver cannot be called, or may not be; None: it may."""
        if answer is None or answer.error is not None:
            return outcomes.unresolved(receiver.host, answer, callback.timeout)
        receiver.judge(answer, self._egress)
        if receiver.addresses:
            return None
        return outcomes.not_permitted(receiver, answer, self._egress)

    def _request(
        self,
        timer: Timer,
        callback: HttpCallback,
        url: _ParsedUrl,
        started: float,
        shown: Presented | None = None,
    ) -> _Request | Outcome:
        """The request, by the terms of its group as they are now; or why there is none."""
        terms = self._terms(timer)
        if terms.unsignable is not None and timer.spec.signatures:
            return _UNSENT if self._closed else outcomes.not_signed(terms.unsignable)
        now, certificate = self._clock.now(), None
        if shown is None:
            head = headers.head(timer, callback, now, terms.secrets, path=url.path, host=url.host)
        else:
            fields = headers.build(timer, callback, now, terms.secrets) | shown.headers
            head = headers.written(callback.method, url.path, url.host, fields)
            certificate = shown.certificate
        capture = capture_of(timer.spec, callback, terms.check)
        return _Request(url, head, callback, capture, started, certificate)

    async def _deliver(
        self,
        request: _Request | Outcome,
        is_mine: Callable[[], bool],
        shown: Presented | None = None,
    ) -> Outcome:
        if isinstance(request, Outcome):
            return request
        response = await self._try_addresses(request, is_mine)
        if isinstance(response, Outcome):
            return response
        if shown is not None:
            response = shown.unrepeated(response)
        return self._answered(request, response)

    def _answered(self, request: _Request, response: Response) -> Outcome:
        latency = self._since(request.started)
        return outcomes.answered(
            response, request.capture, request.url.parsed, self._clock, latency
        )

    async def _deliver_with_credential(
        self,
        timer: Timer,
        callback: HttpCallback,
        url: _ParsedUrl,
        started: float,
        is_mine: Callable[[], bool],
    ) -> Outcome:
        """Show the credential; a token that is refused is fetched anew, once."""
        if (left := self._left(callback, started)) <= 0:
            return outcomes.timed_out(callback.timeout)
        shown = await self._presenting.show(timer, callback, url.receiver, left)
        if isinstance(shown, Outcome):
            return _UNSENT if self._closed else shown
        request = self._request(timer, callback, url, started, shown)
        outcome = await self._deliver(request, is_mine, shown)
        left = self._left(callback, started)
        if shown.token and outcome.status_code == HTTPStatus.UNAUTHORIZED and left > 0:
            again = await self._presenting.show(timer, callback, url.receiver, left, shown.token)
            if isinstance(again, Outcome):
                return _UNSENT if self._closed else again
            if again.token is not shown.token:
                shown = again._replace(hidden=again.hidden + shown.hidden)
                request = self._request(timer, callback, url, started, shown)
                outcome = await self._deliver(request, is_mine, shown)
        return shown.veiled(outcome)

    async def _ask(
        self, text: str, fields: Mapping[str, str], body: bytes, seconds: float
    ) -> Response | Outcome:
        """Ask something for a credential, in the same way and with the same care."""
        started = self._clock.monotonic()
        url = self._parsed(text)
        callback = HttpCallback(url=text, payload=Raw(body), timeout=round(1000 * seconds))
        answer = self._known(url.receiver) or await self._look_up(url.receiver, callback)
        if (problem := self._out_of_reach(url.receiver, answer, callback)) is not None:
            return problem
        fields = {**fields, "User-Agent": headers.USER_AGENT, "Content-Length": str(len(body))}
        head = headers.written(callback.method, url.path, url.host, fields)
        request = _Request(url, head, callback, Capture(MOST_BYTES), started)
        return await self._try_addresses(request, lambda: True)

    async def _try_addresses(
        self, request: _Request, is_mine: Callable[[], bool]
    ) -> Response | Outcome:
        """Send the request to the first address that a connection can be made to."""
        receiver = request.url.receiver
        outcome = _UNSENT
        for address in receiver.addresses:
            if (left := self._left(request.callback, request.started)) <= 0:
                return outcomes.timed_out(request.callback.timeout)
            connection = self._connections.take(receiver, address, request.certificate)
            if connection is None:
                # To make one takes a while: no receiver is called for what cannot be sent then.
                if not self._may_send(is_mine):
                    return _UNSENT
                within = min(left, self._connect_timeout)
                try:
                    connection = await self._connections.open(
                        receiver, address, within, request.certificate
                    )
                except (OSError, TlsFailed, ProxyFailed) as error:
                    outcome = outcomes.not_connected(error, receiver.name(address), within)
                    receiver.demote(address)
                    continue
            if not self._may_send(is_mine):
                self._connections.give_back(connection, was_used=False)
                return _UNSENT
            return await self._exchange(connection, request)
        return outcome

    async def _exchange(self, connection: Connection, request: _Request) -> Response | Outcome:
        callback, keep = request.callback, request.capture.wanted
        left, is_head = self._left(callback, request.started), callback.method == "HEAD"
        try:
            return await connection.exchange(
                request.head, headers.body(callback), left, is_head=is_head, keep=keep
            )
        except (TimeoutError, NoAnswer) as error:
            return self._unanswered(connection, request, error)
        finally:
            self._connections.give_back(connection)

    def _unanswered(
        self, connection: Connection, request: _Request, error: TimeoutError | NoAnswer
    ) -> Outcome:
        """What it means that there was no answer, and what is learned from that."""
        _, address, _ = connection.route
        receiver = request.url.receiver
        if isinstance(error, TimeoutError):
            receiver.demote(address)
            has_begun = isinstance(error, Unfinished)
            return outcomes.timed_out(request.callback.timeout, has_begun=has_begun)
        if isinstance(error, NothingCame):
            self._connections.was_cut(connection)
        return outcomes.unanswered(error, receiver.name(address))

    def _may_send(self, is_mine: Callable[[], bool]) -> bool:
        return not self._closed and is_mine()

    def _left(self, callback: HttpCallback, started: float) -> float:
        """How many seconds of the callback's timeout are left."""
        return callback.timeout / 1000 - (self._clock.monotonic() - started)

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
