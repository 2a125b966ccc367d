"""A link: one connection to the server, which knows who it is to the server."""

import asyncio
from contextlib import suppress
from typing import Any

from redis.asyncio.connection import Connection, SSLConnection

from duetime.stores.redis.address import Address
from duetime.stores.redis.errors import FAILURES

CONNECTED_WITHIN = 5.0  # seconds

Argument = bytes | str | int


class Link:
    """One question at a time. Nothing is ever sent twice: that is for the callers to decide."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.client = 0  # its number at the server
        self.run = ""  # which run of the server that is: the next one counts from the start again

    @classmethod
    async def open(cls, address: Address) -> "Link":
        """Connect; whatever the driver throws if that fails, with nothing left open."""
        link = cls(_connection(address))
        try:
            async with asyncio.timeout(CONNECTED_WITHIN):
                await link._connection.connect()  # type: ignore[no-untyped-call]
                link.client = await link.ask("CLIENT", "ID")
                link.run = (await link.info("server"))["run_id"]
        except BaseException:
            await link.close()
            raise
        return link

    async def ask(self, *question: Argument) -> Any:
        """Send a command and return what the server answers."""
        await self._connection.send_command(*question)
        return await self._connection.read_response()

    async def hear(self) -> Any:
        """What the server says next, unasked, however long that takes."""
        return await self._connection.read_response()

    async def info(self, section: str) -> dict[str, str]:
        """What the server says of itself."""
        lines = (await self.ask("INFO", section)).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    async def is_gone(self) -> bool:
        """Tell whether the server has closed it while nobody used it."""
        try:
            return not self._connection.is_connected or await self._connection.can_read()
        except FAILURES:
            return True

    async def close(self) -> None:
        """Hang up; the server may still be at work on what it was asked."""
        with suppress(*FAILURES):
            await self._connection.disconnect(nowait=True)


def _connection(address: Address) -> Connection:
    common: dict[str, Any] = {
        "host": address.host,
        "port": address.port,
        "db": address.database,
        "username": address.user,
        "password": address.password,
        "socket_timeout": None,  # who asks has a limit of his own
        "socket_connect_timeout": None,
        "client_name": "duetime",
        "driver_info": None,
        "protocol": 2,
    }
    if not address.has_tls:
        return Connection(**common)
    return SSLConnection(
        **common,
        ssl_ca_certs=address.ssl_ca,
        ssl_certfile=address.ssl_cert,
        ssl_keyfile=address.ssl_key,
    )
