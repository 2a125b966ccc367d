"""A receiver is one origin (scheme, host, port), and the addresses at which it may be called."""

import math
import re
from ipaddress import ip_address

from pyreqwest.http import Url

from duetime.delivery.egress import Egress
from duetime.delivery.resolver import Answer

# What DNS names are made of, and no more: what the URL parser lets through beyond that, the HTTP
# library may spell differently, and then the pinned name would not be the one that it looks up.
_NAME = re.compile(r"[a-z0-9_.-]{1,253}")


class Receiver:
    """Where callbacks go. One object serves all the URLs of its origin."""

    __slots__ = ("_answer", "addresses", "host", "is_tls", "literal", "origin", "port", "target")

    def __init__(self, url: Url) -> None:
        """Take the origin of a URL; ValueError if it has none that could be called."""
        host, port = url.host_str, url.port_or_known_default
        if not host or not port or url.scheme not in {"http", "https"}:
            raise ValueError("must be an http or https URL")
        self.literal: Answer | None = None  # where the URL has an address and no name
        if url.domain is None:
            host = str(ip_address(host.strip("[]")))
            self.literal = Answer((host,), None, 0, math.inf)
        elif not _NAME.fullmatch(host):
            raise ValueError("must be an http or https URL")
        self.host = host
        self.port = port
        self.is_tls = url.scheme == "https"
        self.target = self.name(host)  # what users call it
        self.origin = f"{url.scheme}://{self.target}"
        self.addresses: tuple[str, ...] = ()  # permitted, the one to try first in front
        self._answer: Answer | None = None

    def judge(self, answer: Answer, egress: Egress) -> None:
        """Keep the addresses of an answer that may be called; cheap if it was judged before."""
        if answer is self._answer:
            return
        permitted = [
            address for address in answer.addresses if egress.permits(self.host, self.port, address)
        ]
        first = self.addresses[:1]
        permitted.sort(key=lambda address: address not in first)
        self.addresses = tuple(permitted)
        self._answer = answer

    def demote(self, address: str) -> None:
        """Try this address last from now on."""
        if address in self.addresses:
            self.addresses = (*(a for a in self.addresses if a != address), address)

    def name(self, host: str) -> str:
        """A host or an address with the port, as URLs and error messages show it."""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
