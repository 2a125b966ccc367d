"""Servers of Redis, and the databases that tests have on them: each is a prefix of its own."""

import secrets
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from redis.asyncio import Redis

from tests.servers import certificates
from tests.servers.install import Install, from_debian
from tests.servers.installed import InstalledServer

# In Debian the server is one program with its tools, which `redis-server` is only a link to.
PACKAGES = ("redis-server", "redis-tools")


def redis_7() -> Install:
    """Redis 7.0, from Debian."""
    return from_debian(*PACKAGES, programs="usr/bin", program="redis-server")


class RedisServer(InstalledServer):
    """A Redis server whose acknowledged writes are on its disk, unless its settings say otherwise.

    With ``tls`` it takes no connections without it.
    """

    name = "redis"
    program = "redis-server"

    def __init__(
        self,
        install: Install,
        *,
        tls: bool = False,
        settings: Mapping[str, str] | None = None,
        within: Path | None = None,
    ) -> None:
        self.password = secrets.token_urlsafe(16)
        self.version = install.run(self.program, "--version").partition("v=")[2].split()[0]
        self._tls = tls
        self._settings = dict(settings or {})
        super().__init__(install, within=within)

    def url(self, **query: str) -> str:
        scheme = "rediss" if self._tls else "redis"
        address = f"{scheme}://:{self.password}@{self.host}:{self.port}/0"
        return f"{address}?{urlencode(query)}" if query else address

    def set_up(self) -> None:
        super().set_up()
        if self._tls:
            for source in (certificates.AUTHORITY, certificates.CERTIFICATE, certificates.KEY):
                certificates.lay_down(source, self._file(source), self._account)
        lines = [f'{name} "{value}"\n' for name, value in self._all_settings.items()]
        configuration = self.folder / "redis.conf"
        configuration.write_text("".join(lines))
        self._account.own(configuration)

    def command(self) -> list[str | Path]:
        return [*self._install.command(self.program), self.folder / "redis.conf"]

    def is_ready(self) -> bool:
        """Before it has read its file it takes connections too, and refuses every question."""
        log = self.folder / "server.log"
        return super().is_ready() and "Ready to accept connections" in _last_run(log.read_text())

    @property
    def _all_settings(self) -> dict[str, str]:
        port = {"port": "0", "tls-port": str(self.port)} if self._tls else {"port": str(self.port)}
        secure = {
            "tls-ca-cert-file": str(self._file(certificates.AUTHORITY)),
            "tls-cert-file": str(self._file(certificates.CERTIFICATE)),
            "tls-key-file": str(self._file(certificates.KEY)),
            "tls-auth-clients": "no",
        }
        return {
            "bind": self.host,
            **port,
            **(secure if self._tls else {}),
            "dir": str(self.folder),
            "requirepass": self.password,
            "databases": "2",
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            **self._settings,
        }

    def _file(self, source: Path) -> Path:
        return self.folder / source.name


def _last_run(log: str) -> str:
    """What the server has logged since it was started last."""
    return log.rpartition("Redis is starting")[2]


@asynccontextmanager
async def session(url: str, **options: Any) -> AsyncIterator[Redis]:
    """A client of somebody else's, on the server of a store's URL."""
    client = Redis.from_url(urlsplit(url)._replace(query="").geturl(), **options)
    try:
        yield client
    finally:
        await client.aclose()


async def make_database(url: str) -> str:
    """A prefix that nobody uses on a server, as the URL of a store."""
    return urlsplit(url)._replace(query=f"prefix=test_{uuid.uuid4().hex}").geturl()


async def drop_database(url: str) -> None:
    """Drop all that is there under the prefix."""
    [prefix] = parse_qs(urlsplit(url).query)["prefix"]
    async with session(url) as client:
        names = [name async for name in client.scan_iter(f"{prefix}:*", count=10_000)]
        for start in range(0, len(names), 10_000):
            await client.unlink(*names[start : start + 10_000])
