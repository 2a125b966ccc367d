"""The proxy through which all callbacks go, where the operator has one.

It is asked by CONNECT for a tunnel to the very address that the egress guard has judged, for http
and https alike; what goes through that, TLS too, is between Duetime and the receiver. The proxy
itself is not judged: the operator chose it.
"""

import asyncio
import os
import re
import socket
from base64 import b64encode
from http import HTTPStatus
from urllib.parse import unquote_to_bytes

from pyreqwest.http import Url

from duetime.delivery.headers import USER_AGENT
from duetime.delivery.resolver import Resolver
from duetime.delivery.sockets import connect
from duetime.errors import ConfigurationError
from duetime.timer import Kind

VARIABLE = "EGRESS_PROXY"

_LONGEST_ANSWER = 16 * 1024
_ANSWER = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n]*)?\r?\n")
_END = re.compile(rb"\r?\n\r?\n")
_PHRASES = {int(status): f"HTTP {status} {status.phrase}" for status in HTTPStatus}
_UNPERMITTED = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS})


class ProxyFailed(Exception):
    """There is no way through the proxy; the text says why, and no secret of it."""

    def __init__(self, reason: str, kind: Kind = Kind.NETWORK) -> None:
        super().__init__(reason)
        self.kind = kind  # EGRESS: it does not permit it


class Proxy:
    """Opens tunnels; ``resolves`` says that it is given names as they are."""

    def __init__(self, url: str, *, resolves: bool = False) -> None:
        try:
            parsed = Url(url)
        except ValueError:
            raise _bad() from None
        host, port = parsed.host_str, parsed.port_or_known_default
        is_bare = parsed.path == "/" and parsed.query_string is None and parsed.fragment is None
        if parsed.scheme != "http" or not host or not port or not is_bare:
            raise _bad()
        self.resolves = resolves
        self._host = host.strip("[]")
        self._literal = (self._host,) if parsed.domain is None else None
        self._port = port
        self._authorization = _authorization(parsed)

    async def tunnel(self, resolver: Resolver, to: str, until: float) -> socket.socket:
        """A socket that leads to this host and port; ProxyFailed if there is none in time.

        ``until`` is on the event loop's clock.
        """
        plain = await self._reach(resolver, until)
        try:
            async with asyncio.timeout_at(until):
                answer = await self._ask(plain, to)
            _check(answer)
        except BaseException as error:
            plain.close()
            if isinstance(error, TimeoutError) and error.errno is None:
                raise ProxyFailed("it did not answer in time", Kind.TIMEOUT) from None
            if isinstance(error, OSError):
                raise ProxyFailed("it closed the connection") from None
            raise
        return plain

    async def _reach(self, resolver: Resolver, until: float) -> socket.socket:
        """A socket that leads to the proxy: to the first of its addresses that can be reached."""
        problem = ProxyFailed("its host has no address")
        for address in self._literal or await self._addresses(resolver, until):
            try:
                async with asyncio.timeout_at(until):
                    return await connect(address, self._port)
            except OSError as error:
                problem = _unreached(error)
        raise problem

    async def _addresses(self, resolver: Resolver, until: float) -> tuple[str, ...]:
        left = until - asyncio.get_running_loop().time()
        answer = await resolver.resolve(self._host, left)
        if answer is None:
            raise ProxyFailed("its host was not resolved in time", Kind.TIMEOUT)
        if answer.error is not None:
            raise ProxyFailed(f"its host cannot be resolved: {answer.error}")
        return answer.addresses

    async def _ask(self, plain: socket.socket, to: str) -> bytes:
        """Ask for the tunnel, and read the answer, with what came right behind it."""
        loop = asyncio.get_running_loop()
        head = f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\nUser-Agent: {USER_AGENT}\r\n"
        await loop.sock_sendall(plain, f"{head}{self._authorization}\r\n".encode("ascii"))
        answer = b""
        while not _END.search(answer):
            if len(answer) > _LONGEST_ANSWER:
                raise ProxyFailed("the headers of its answer do not end")
            piece = await loop.sock_recv(plain, 4096)
            if not piece:
                raise ProxyFailed("it closed the connection")
            answer += piece
        return answer


def _check(answer: bytes) -> None:
    """See to it that the tunnel is there, and that nothing has come through it unasked."""
    found = _ANSWER.match(answer)
    if found is None:
        raise ProxyFailed("its answer is not valid HTTP")
    status = int(found[1])
    said = _PHRASES.get(status) or f"HTTP {status}"
    if status in _UNPERMITTED:
        raise ProxyFailed(f"it does not permit it ({said})", Kind.EGRESS)
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        raise ProxyFailed(f"it does not take the user and password of {VARIABLE} ({said})")
    if not 200 <= status < 300:  # noqa: PLR2004 - the class of success
        raise ProxyFailed(f"it answered {said}")
    end = _END.search(answer)
    if end is not None and end.end() != len(answer):
        raise ProxyFailed("it sent more than an answer")


def _unreached(error: OSError) -> ProxyFailed:
    if error.errno is not None:
        return ProxyFailed(f"it cannot be reached: {os.strerror(error.errno)}")
    if isinstance(error, TimeoutError):
        return ProxyFailed("it cannot be reached in time", Kind.TIMEOUT)
    return ProxyFailed(f"it cannot be reached: {error}")


def _authorization(url: Url) -> str:
    """The header with the user and password of a URL, or nothing."""
    if not url.username and url.password is None:
        return ""
    pair = unquote_to_bytes(url.username) + b":" + unquote_to_bytes(url.password or "")
    return f"Proxy-Authorization: Basic {b64encode(pair).decode()}\r\n"


def _bad() -> ConfigurationError:
    return ConfigurationError(
        f"{VARIABLE}: must be http://host:port or http://user:password@host:port"
    )
