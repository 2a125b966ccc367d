"""Servers of MySQL's family, and the databases that tests have on them."""

import secrets
import subprocess
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import asyncmy

from tests.servers import certificates, eatmydata
from tests.servers.install import Install, from_debian
from tests.servers.installed import InstalledServer

USER = "duetime"


def mariadb() -> Install:
    """MariaDB 10.11, from Debian."""
    return from_debian("mariadb-server-core", programs="usr/sbin", program="mariadbd")


def mysql() -> Install:
    """MySQL, from Debian's unstable suite: no release of Debian has it. It is as new as that."""
    packages = ("mysql-server-core", eatmydata.PACKAGE)
    return from_debian(*packages, programs="usr/sbin", program="mysqld", suite="sid")


class FamilyServer(InstalledServer):
    """A server of MySQL's family.

    Without ``fsync`` it is quicker and survives a crash of its own, but not one of the machine.
    With ``tls`` it refuses connections without TLS.
    """

    log_size = "innodb-log-file-size"  # the setting's name

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
        self.version = install.run(self.program, "--version").partition("Ver ")[2].split("-")[0]
        self._is_synced = fsync
        self._tls = tls
        self._settings = dict(settings or {})
        super().__init__(install, within=within)

    def url(self, database: str = "mysql", **query: str) -> str:
        """Where to reach it as a user who may do everything."""
        address = f"mysql://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"
        return f"{address}?{urlencode(query)}" if query else address

    def command(self) -> list[str | Path]:
        return [
            *self._install.command(self.program),
            "--no-defaults",
            *(f"--{name}={value}" for name, value in self._all_settings.items()),
        ]

    def set_up(self) -> None:
        super().set_up()
        self._data.mkdir()
        self._account.own(self._data)
        if self._tls:
            self._add_certificates()
        self._make_data()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _share(self) -> Path:
        return self._install.root / "usr" / "share" / "mysql"

    @property
    def _where(self) -> dict[str, str]:
        """What it must know to find its files."""
        return {
            "datadir": str(self._data),
            # One that starts deletes the tables of others in a folder that they share.
            "tmpdir": str(self.folder),
            "lc-messages-dir": str(self._share),
            "character-sets-dir": str(self._share / "charsets"),
        }

    @property
    def _all_settings(self) -> dict[str, str]:
        secure = {
            "ssl-ca": str(self._certificate(certificates.AUTHORITY)),
            "ssl-cert": str(self._certificate(certificates.CERTIFICATE)),
            "ssl-key": str(self._certificate(certificates.KEY)),
            "require-secure-transport": "ON",
        }
        return {
            **self._where,
            "bind-address": "127.0.0.1",
            "port": str(self.port),
            "socket": str(self.folder / "socket"),
            "pid-file": str(self.folder / "pid"),
            "max-connections": "300",
            "max-allowed-packet": "64M",
            "innodb-buffer-pool-size": "64M",
            self.log_size: "48M",
            "innodb-log-buffer-size": "4M",
            "innodb-flush-log-at-trx-commit": "1" if self._is_synced else "2",
            **({} if self._is_synced else self._unsynced),
            "skip-log-bin": "1",
            **(secure if self._tls else {}),
            **self._settings,
        }

    @property
    def _unsynced(self) -> dict[str, str]:
        """What makes it quick: nothing waits for the disk, and a table needs no file of its own."""
        return {"innodb-flush-method": "nosync", "innodb-file-per-table": "0"}

    def _make_data(self) -> None:
        raise NotImplementedError

    def _initialize(self, *arguments: str, **given: Any) -> None:
        """Run the server once to make its data."""
        done = subprocess.run(
            [
                *self._install.command(self.program),
                "--no-defaults",
                *(f"--{name}={value}" for name, value in self._where.items()),
                "--innodb-flush-method=nosync",
                f"--{self.log_size}=48M",
                *arguments,
            ],
            **{"env": self._install.environment, **given},
            cwd="/",
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
            **self._account.popen,
        )
        if done.returncode:
            raise RuntimeError(f"{self.program} made no data:\n{done.stderr[-4000:]}")

    def _add_certificates(self) -> None:
        for source in (certificates.AUTHORITY, certificates.CERTIFICATE, certificates.KEY):
            certificates.lay_down(source, self._certificate(source), self._account)

    def _certificate(self, source: Path) -> Path:
        return self.folder / source.name

    @property
    def _users(self) -> list[str]:
        """The statements that make its only user; each must stand on a line."""
        return [
            f"CREATE USER {USER}@'%' IDENTIFIED BY '{self.password}';",
            f"GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION;",
        ]


class MysqlServer(FamilyServer):
    """A MySQL server."""

    name = "mysql"
    program = "mysqld"
    log_size = "innodb-redo-log-capacity"

    @property
    def _where(self) -> dict[str, str]:
        return {
            **super()._where,
            "secure-file-priv": "",  # or else it looks for a folder of the system's
            "performance-schema": "OFF",
            "mysqlx": "OFF",  # another port
            "auto-generate-certs": "OFF",
        }

    def environment(self) -> dict[str, str]:
        return super().environment() if self._is_synced else self._hasty

    def _make_data(self) -> None:
        script = self.folder / "users.sql"
        script.write_text("\n".join(["DROP USER root@localhost;", *self._users, ""]))
        self._account.own(script)
        self._initialize("--initialize-insecure", f"--init-file={script}", env=self._hasty)

    @property
    def _hasty(self) -> dict[str, str]:
        """It waits for the disk whenever a table is made, whatever its settings say."""
        library = eatmydata.library(self._install.root)
        return {**self._install.environment, "LD_PRELOAD": str(library)}


class MariadbServer(FamilyServer):
    """A MariaDB server."""

    name = "mariadb"
    program = "mariadbd"

    @property
    def _unsynced(self) -> dict[str, str]:
        return {**super()._unsynced, "sync-frm": "0", "debug-no-sync": "1"}

    def _make_data(self) -> None:
        """Do what mariadb-install-db does, which needs more programs than are fetched."""
        tables = ("system_tables", "performance_tables", "system_tables_data")
        lines = ["CREATE DATABASE mysql;", "USE mysql;"]
        lines += [(self._share / f"mysql_{name}.sql").read_text() for name in tables]
        lines += ["DELETE FROM global_priv WHERE User IN ('root', '');", "FLUSH PRIVILEGES;"]
        self._initialize("--bootstrap", input="\n".join([*lines, *self._users, ""]))


@asynccontextmanager
async def session(url: str, **options: Any) -> AsyncIterator[asyncmy.Connection]:
    """A connection of one's own to the database that a URL of a test names."""
    parts = urlsplit(url)
    connection = await asyncmy.connect(
        **{
            "host": parts.hostname,
            "port": parts.port,
            "user": parts.username,
            "password": parts.password,
            "database": parts.path[1:],
            "autocommit": True,
            **options,
        }
    )
    try:
        yield connection
    finally:
        connection.close()


async def rows(connection: asyncmy.Connection, query: str) -> list[tuple[Any, ...]]:
    """What the server answers."""
    cursor = connection.cursor()
    await cursor.execute(query)
    return list(await cursor.fetchall() or [])


async def mysql_value(url: str, query: str, **options: Any) -> Any:
    """Connect, ask for one value, and hang up."""
    async with session(url, **options) as connection:
        found = await rows(connection, query)
    return found[0][0] if found else None


async def make_database(url: str) -> str:
    """Make an empty database on a server, and return the URL of a store in it."""
    name = f"test_{uuid.uuid4().hex}"
    await mysql_value(url, f"CREATE DATABASE {name}")
    return urlsplit(url)._replace(path=f"/{name}").geturl()


async def drop_database(url: str) -> None:
    """Drop what ``make_database`` made."""
    name = urlsplit(url).path[1:]
    server = urlsplit(url)._replace(path="/mysql").geturl()
    async with session(server) as connection:
        # A test that leaves a lock behind is told so, instead of waiting for ever.
        await rows(connection, "SET lock_wait_timeout = 20")
        await rows(connection, f"DROP DATABASE {name}")
