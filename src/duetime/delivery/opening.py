"""Opening: a connection is made to an address that the egress guard has permitted, never to a name.

So it cannot be led elsewhere: there is no DNS here and no redirect, and a proxy is told the same
address, unless the operator leaves the names to it. Over TLS, the receiver's name and certificate
are checked. OpenSSL's own places say which authorities may vouch for it, and with them its
variables SSL_CERT_FILE and SSL_CERT_DIR. A Python that was built elsewhere may look where this
machine has nothing; then the usual places are tried.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from duetime.delivery.connection import Connection
from duetime.delivery.receiver import Receiver
from duetime.delivery.sockets import connect

# A socket through a proxy to a host and port, until so late by the event loop's clock.
Tunnel: TypeAlias = Callable[[str, float], Awaitable[socket.socket]]

_USUAL = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class TlsFailed(Exception):
    """There is a connection, but no TLS on it; the cause says why."""


class Opening:
    """Opens connections, of whose answers so many bytes are read; ``on_lost`` hears of each end."""

    def __init__(
        self,
        *,
        read_at_most: int,
        on_lost: Callable[[Connection], None],
        tunnel: Tunnel | None = None,
    ) -> None:
        self._read_at_most = read_at_most
        self._on_lost = on_lost
        self._tunnel = tunnel
        self._tls: asyncio.Future[ssl.SSLContext] | None = None

    async def open(self, receiver: Receiver, address: str, seconds: float) -> Connection:
        """Make one; OSError, TimeoutError, TlsFailed or ProxyFailed if there is none.

        Whichever part has no time left is the one that fails, so that its name can be told.
        """
        until = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout_at(until):
            tls = await self._context() if receiver.is_tls else None
        plain = await self._reach(receiver, address, until)
        try:
            return await self._wrap(plain, receiver, address, tls, until)
        except BaseException:
            plain.close()
            raise

    async def _reach(self, receiver: Receiver, address: str, until: float) -> socket.socket:
        if self._tunnel is not None:
            return await self._tunnel(receiver.name(address), until)
        async with asyncio.timeout_at(until):
            return await connect(address, receiver.port)

    async def _wrap(
        self,
        plain: socket.socket,
        receiver: Receiver,
        address: str,
        tls: ssl.SSLContext | None,
        until: float,
    ) -> Connection:
        try:
            async with asyncio.timeout_at(until):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(
                        (receiver.origin, address),
                        read_at_most=self._read_at_most,
                        on_lost=self._on_lost,
                        is_tls=receiver.is_tls,
                    ),
                    sock=plain,
                    ssl=tls,
                    server_hostname=receiver.host.rstrip(".") if tls else None,
                )
        except (OSError, ValueError) as error:
            if tls is None:
                raise
            raise TlsFailed from error
        return connection

    async def _context(self) -> ssl.SSLContext:
        """Made once, off the event loop: it reads every certificate that the machine trusts."""
        if self._tls is None or (self._tls.done() and self._tls.exception()):
            self._tls = asyncio.get_running_loop().run_in_executor(None, tls_context)
        try:
            return await asyncio.shield(self._tls)
        except OSError as error:
            raise TlsFailed from error


def tls_context() -> ssl.SSLContext:
    """What TLS connections are made with: the receiver's name and certificate are checked."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    places = ssl.get_default_verify_paths()
    if places.cafile is None and places.capath is None:
        for bundle in _USUAL:
            if Path(bundle).is_file():
                context.load_verify_locations(bundle)
                break
    return context
