"""Opening: a connection is made to an address that the egress guard has permitted, never to a name.

So it cannot be led elsewhere: there is no DNS here, no proxy and no redirect. Over TLS, the
receiver's name and certificate are checked. OpenSSL's own places say which authorities may vouch
for it, and with them its variables SSL_CERT_FILE and SSL_CERT_DIR. A Python that was built
elsewhere may look where this machine has nothing; then the usual places are tried.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from duetime.delivery.connection import Connection
from duetime.delivery.receiver import Receiver

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

    def __init__(self, *, read_at_most: int, on_lost: Callable[[Connection], None]) -> None:
        self._read_at_most = read_at_most
        self._on_lost = on_lost
        self._tls: asyncio.Future[ssl.SSLContext] | None = None

    async def open(self, receiver: Receiver, address: str, seconds: float) -> Connection:
        """Make one; OSError if there is none, TimeoutError if not in time, or TlsFailed."""
        async with asyncio.timeout(seconds):
            tls = await self._context() if receiver.is_tls else None
            async with _connected(address, receiver.port) as plain:
                return await self._wrap(plain, receiver, address, tls)

    async def _wrap(
        self, plain: socket.socket, receiver: Receiver, address: str, tls: ssl.SSLContext | None
    ) -> Connection:
        try:
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


@contextlib.asynccontextmanager
async def _connected(address: str, port: int) -> AsyncIterator[socket.socket]:
    """A socket that is connected, and closed if it was of no use."""
    numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=numeric)
    family, kind, protocol, _, at = found[0]
    plain = socket.socket(family, kind, protocol)
    try:
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(plain, at)
        yield plain
    except BaseException:
        plain.close()
        raise


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
