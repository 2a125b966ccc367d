"""A PostgreSQL server of one's own: a new data folder on a free port, gone with its owner."""

import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

from tests.ports import free_port
from tests.servers.account import server_account
from tests.servers.installs import Install
from tests.servers.kept import KeptProcess, make_folder, within_reach
from tests.servers.unavailable import Unavailable

USER = "duetime"
# An authority, and a certificate of it for localhost and 127.0.0.1 that is valid until 2120.
_CERTIFICATES = Path(__file__).parents[1] / "delivery" / "certificates"
AUTHORITY = _CERTIFICATES / "authority.pem"


class PostgresServer:
    """It can be stopped and started again, on the same data and the same port.

    Without ``fsync`` it is quicker and survives a crash of its own, but not one of the machine.
    With ``tls`` it refuses connections without TLS. ``within`` is where its folder is made.
    """

    def __init__(
        self,
        install: Install,
        *,
        fsync: bool = False,
        tls: bool = False,
        settings: Mapping[str, str] | None = None,
        within: Path | None = None,
    ) -> None:
        self.port = free_port()
        self.password = secrets.token_urlsafe(16)
        self.version = install.run("postgres", "--version").split()[2]
        self._account = server_account()
        self.folder = make_folder("postgres", self._account, within)
        self._data = self.folder / "data"
        self._tls = tls
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "max_connections": "200",
            "jit": "off",  # LLVM is not fetched.
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            **({"ssl": "on"} if tls else {}),
            **(settings or {}),
        }
        self._process: KeptProcess | None = None
        try:
            self._install = within_reach(install, "postgres", self._account, self.folder)
            self._check_tls()
            self._make_data()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, database: str = "postgres", **query: str) -> str:
        """Where to reach it as its superuser."""
        address = f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"
        return f"{address}?{urlencode(query)}" if query else address

    @property
    def pid(self) -> int:
        """The process above all others of the server."""
        return int(self._status.read_text().splitlines()[0])

    def start(self) -> None:
        """Start it, and return once it takes connections."""
        assert self._process is None, "it is running already"
        # Left behind by a crash, its last line would say that it is ready.
        self._status.unlink(missing_ok=True)
        self._process = KeptProcess(
            [self._install.program("postgres"), "-D", self._data],
            env=self._install.environment,
            account=self._account,
            folder=self.folder,
            farewell=signal.SIGQUIT,
        )
        self._process.wait_until(self._is_ready)

    def stop(self) -> None:
        """Stop it in order: transactions are rolled back, clients are sent away."""
        self._end(signal.SIGINT)

    def restart_immediate(self) -> None:
        """Crash and come back: like `pg_ctl -m immediate`, recovery replays what was committed."""
        self._end(signal.SIGQUIT)
        self.start()

    def close(self) -> None:
        """End it at once, if it runs, and remove its data."""
        if self._process is not None:
            self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None, "it is not running"
        process, self._process = self._process, None
        process.end(number)

    @property
    def _status(self) -> Path:
        return self._data / "postmaster.pid"

    def _is_ready(self) -> bool:
        """Whether the file that `pg_ctl -w` looks at says so in its last line."""
        try:
            lines = self._status.read_text().splitlines()
        except FileNotFoundError:
            return False
        return lines[7:] != [] and lines[7].strip() == "ready"

    def _check_tls(self) -> None:
        if self._tls and not self._install.has_library("postgres", "libssl.so"):
            raise Unavailable(f"this build of PostgreSQL {self.version} has no TLS")

    def _make_data(self) -> None:
        secret = self.folder / "password"
        secret.touch(mode=0o600)
        secret.write_text(self.password)
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
            file.writelines(f"{name} = '{value}'\n" for name, value in self._settings.items())
        if self._tls:
            self._add_certificate()

    def _locale(self) -> list[str]:
        """Sort text as people do where the build can: a store must not depend on bytewise order."""
        if self._install.has_library("postgres", "libicui18n.so"):
            return ["--locale-provider=icu", "--icu-locale=en-US", "--locale=C"]
        return ["--locale=C"]

    def _add_certificate(self) -> None:
        for source, name in (("valid.pem", "server.crt"), ("key.pem", "server.key")):
            made = self._data / name
            shutil.copyfile(_CERTIFICATES / source, made)
            made.chmod(0o600)
            self._account.own(made)
        access = self._data / "pg_hba.conf"
        access.write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")
