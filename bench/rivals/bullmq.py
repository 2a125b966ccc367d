"""BullMQ: its jobs are kept in Redis, by a server of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from redis.asyncio import Redis

from bench.rivals.rival import Place, Rival
from duetime.benching.usage import tree_cpu_seconds

if TYPE_CHECKING:
    from tests.servers.server import Server

# What its guide asks for in production: at most a second of what was acknowledged can be lost.
SERVER_SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
    # What redis.conf names for low latency: with 10, its default, a worker that waits for the next
    # delayed job is woken up to 100 ms late while nobody else talks to the server.
    "hz": "100",
}


class Bullmq(Rival):
    """On a server that nobody else uses."""

    package = "bullmq"
    title = "BullMQ"
    is_metered = True

    def __init__(self, server: "Server") -> None:
        self._server = server

    def cpu_seconds(self) -> float | None:
        return tree_cpu_seconds(self._server.pid)

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Place]:
        url = self._server.url()
        client = Redis.from_url(url)
        try:
            await client.flushall()
            yield Place(url)
        finally:
            await client.flushall()
            await client.aclose()
