"""Opening: a connection is made to an address that the egress guard has permitted, never to a name.

So it cannot be led elsewhere: there is no DNS here and no redirect, and a proxy is told the same
address, unless the operator leaves the names to it. Over TLS, the receiver's name and certificate
are checked. OpenSSL's own places say which authorities may vouch for it, and with them its
variables SSL_CERT_FILE and SSL_CERT_DIR. A Python that was built elsewhere may look where this
machine has nothing; then the usual places are tried. A client certificate has a context of its own,
and may bring its own authorities.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from duetime.delivery.client_certificate import ClientCertificate
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


_MOST_CONTEXTS = 256  # that are kept, of client certificates


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
        # By the ids of client certificates; "": without one.
        self._tls: dict[str, asyncio.Future[ssl.SSLContext]] = {}

    async def open(
        self,
        receiver: Receiver,
        address: str,
        seconds: float,
        certificate: ClientCertificate | None = None,
    ) -> Connection:
        """Make one; OSError, TimeoutError, TlsFailed or ProxyFailed if there is none.

        Whichever part has no time left is the one that fails, so that its name can be told.
        """
        until = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout_at(until):
            tls = await self._context(certificate) if receiver.is_tls else None
        route = (receiver.origin, address, certificate.id if certificate else "")
        plain = await self._reach(receiver, address, until)
        try:
            return await self._wrap(plain, receiver, route, tls, until)
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
        route: tuple[str, str, str],
        tls: ssl.SSLContext | None,
        until: float,
    ) -> Connection:
        try:
            async with asyncio.timeout_at(until):
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
    # With these the receiver chooses the numbers: one handshake can keep the loop for a second.
    known = [cipher["name"] for cipher in context.get_ciphers()]
    context.set_ciphers(":".join(name for name in known if not name.startswith("DHE-")))
    places = ssl.get_default_verify_paths()
    if authorities is None and places.cafile is None and places.capath is None:
        for bundle in _USUAL:
            if Path(bundle).is_file():
                context.load_verify_locations(bundle)
                break
    return context
