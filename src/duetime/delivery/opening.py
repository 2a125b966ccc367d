"""Opening: a connection is made to an address that the egress guard has permitted, never to a name.

So it cannot be led elsewhere: there is no DNS here, no proxy and no redirect. Over TLS, the
receiver's name and certificate are checked. OpenSSL's own places say which authorities may vouch
for it, and with them its variables SSL_CERT_FILE and SSL_CERT_DIR. A Python that was built
elsewhere may look where this machine has nothing; then the usual places are tried. A client
certificate has a context of its own, and may bring its own authorities.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from duetime.delivery.client_certificate import ClientCertificate
from duetime.delivery.connection import Connection
from duetime.delivery.receiver import Receiver

_USUAL = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


_MOST_CONTEXTS = 256  # that are kept, of client certificates


class TlsFailed(Exception):
    """There is a connection, but no TLS on it; the cause says why."""


class Opening:
    """Opens connections, of whose answers so many bytes are read; ``on_lost`` hears of each end."""

    def __init__(self, *, read_at_most: int, on_lost: Callable[[Connection], None]) -> None:
        self._read_at_most = read_at_most
        self._on_lost = on_lost
        # By the ids of client certificates; "": without one.
        self._tls: dict[str, asyncio.Future[ssl.SSLContext]] = {}

    async def open(
        self,
        receiver: Receiver,
        address: str,
        seconds: float,
        certificate: ClientCertificate | None = None,
    ) -> Connection:
        """Make one; OSError if there is none, TimeoutError if not in time, or TlsFailed."""
        async with asyncio.timeout(seconds):
            tls = await self._context(certificate) if receiver.is_tls else None
            route = (receiver.origin, address, certificate.id if certificate else "")
            async with _connected(address, receiver.port) as plain:
                return await self._wrap(plain, receiver, route, tls)

    async def _wrap(
        self,
        plain: socket.socket,
        receiver: Receiver,
        route: tuple[str, str, str],
        tls: ssl.SSLContext | None,
    ) -> Connection:
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(
                    route,
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

    async def _context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        """Made once, off the event loop: it reads every certificate that the machine trusts."""
        which = certificate.id if certificate else ""
        making = self._tls.get(which)
        if making is None or (making.done() and making.exception()):
            making = asyncio.get_running_loop().run_in_executor(None, _made, certificate)
            self._tls[which] = making
            if len(self._tls) > _MOST_CONTEXTS:
                del self._tls[next(each for each in self._tls if each not in {"", which})]
        try:
            return await asyncio.shield(making)
        except (OSError, ValueError) as error:
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


def _made(certificate: ClientCertificate | None) -> ssl.SSLContext:
    context = tls_context(certificate.authorities if certificate else None)
    if certificate:
        certificate.load_into(context)
    return context


def tls_context(authorities: str | None = None) -> ssl.SSLContext:
    """What TLS connections are made with: the receiver's name and certificate are checked.

    Authorities that are given are trusted in the place of the machine's own.
    """
    context = ssl.create_default_context(cadata=authorities)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    places = ssl.get_default_verify_paths()
    if authorities is None and places.cafile is None and places.capath is None:
        for bundle in _USUAL:
            if Path(bundle).is_file():
                context.load_verify_locations(bundle)
                break
    return context
