"""A credential, as callbacks show it to receivers: headers, a client certificate, or a token.

Who keeps credentials is none of delivery's business: it asks ``Credentials`` at every attempt, so
that secrets can change under timers that are due in a year. Delivery sees to it that one is shown
to no host but its own. None of these classes shows in its ``repr`` what it holds.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from duetime.delivery.client_certificate import ClientCertificate
from duetime.delivery.grant import Grant
from duetime.delivery.hosts import Hosts
from duetime.timer import Timer


class Credential:
    """What to show, and to whom."""

    __slots__ = ("certificate", "grant", "headers", "hidden", "hosts", "name")

    def __init__(
        self,
        name: str,
        hosts: Hosts,
        *,
        headers: Mapping[str, str] | None = None,
        certificate: ClientCertificate | None = None,
        grant: Grant | None = None,
        hidden: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.hosts = hosts
        self.headers = headers or {}
        self.certificate = certificate
        self.grant = grant  # where a token is to be had, which is shown then
        self.hidden = hidden  # texts that nobody may read, should a receiver repeat them


class Refusal(NamedTuple):
    """Why a timer cannot have its credential, in words that follow its name."""

    error: str
    retryable: bool


class Credentials(Protocol):
    """Who keeps the credentials."""

    def of(self, timer: Timer) -> Credential | Refusal:
        """The one that a timer names, as far as is known here; answered from memory."""

    async def look(self) -> None:
        """Learn of changes that others have made; StoreError if that cannot be done."""


class NoCredentials:
    """There are none."""

    def of(self, _timer: Timer) -> Credential | Refusal:
        return Refusal("is not known", retryable=False)

    async def look(self) -> None:
        return
