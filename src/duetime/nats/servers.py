"""Servers of NATS: where each is, and what its URL says of who we are."""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from duetime.errors import ConfigurationError

PORT = 4222


class Server(NamedTuple):
    """One server."""

    host: str
    port: int = PORT
    is_tls: bool = False  # it must be: without TLS nothing is told to it
    user: str = ""
    password: str = ""
    token: str = ""
    name: str = ""  # whose certificate it must show, if not that of its host

    @property
    def shown(self) -> str:
        """Its address, without what is secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.is_tls else 'nats'}://{host}:{self.port}"

    def others(self, addresses: Iterable[str]) -> "list[Server]":
        """Those of its cluster that it knows, as it names them; what cannot be read is left out."""
        found = []
        for address in addresses:
            try:
                parts = urlsplit(f"//{address}")
                host, port = parts.hostname, parts.port or PORT
            except ValueError:
                continue
            if host:
                name = (self.name or self.host) if _is_number(host) else ""
                found.append(self._replace(host=host, port=port, name=name))
        return found


def read(url: str) -> Server:
    """Read the URL of a server: nats:// or tls://, with a user and a password or a token."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        host, port = None, 0
    if not host or parts.scheme not in {"nats", "tls"}:
        raise ConfigurationError("NATS_URL: must be nats://host:port or tls://host:port")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    is_tls = parts.scheme == "tls"
    if parts.password is None:  # what stands there alone is a token
        return Server(host, port, is_tls, token=user)
    return Server(host, port, is_tls, user=user, password=password)


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
