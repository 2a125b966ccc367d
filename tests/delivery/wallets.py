"""Credentials for the tests of delivery, and who keeps them."""

from collections.abc import Callable
from typing import Any

from duetime.delivery.client_certificate import ClientCertificate
from duetime.delivery.credential import Credential, Refusal
from duetime.delivery.hosts import Hosts
from duetime.timer import Timer
from tests.certificates import Made

SECRET = "marked-secret-of-the-bank"
HERE = ("127.0.0.1",)


class Wallet:
    """Has one credential for all, or none; ``on_look`` may change that."""

    def __init__(self, shown: Credential | Refusal) -> None:
        self.shown = shown
        self.looks = 0
        self.on_look: Callable[[], None] = lambda: None

    def of(self, _timer: Timer) -> Credential | Refusal:
        return self.shown

    async def look(self) -> None:
        self.looks += 1
        self.on_look()


def credential(
    hosts: tuple[str, ...] = HERE, *, over_http: bool = True, **options: Any
) -> Credential:
    """One that may go to these hosts: a bearer token, unless it is another."""
    if not {"grant", "certificate", "headers"} & set(options):
        options["headers"] = {"Authorization": f"Bearer {SECRET}"}
    options.setdefault("hidden", (SECRET,))
    return Credential("bank", Hosts(hosts, over_http=over_http), **options)


def client(made: Made, authority: Made, id_: str = "1") -> ClientCertificate:
    """A client certificate for receivers that this authority vouches for."""
    return ClientCertificate(
        id_, chain=made.pem, key=made.key_pem.encode(), authorities=authority.pem
    )
