"""Clients: HTTP clients that are each pinned to one receiver at one address.

A pinned client cannot be led elsewhere: it never asks DNS, follows no redirect and knows no proxy.
Making one costs several milliseconds (it reads the trusted certificates), so they are kept.
"""

import asyncio
from collections import OrderedDict
from datetime import timedelta

from pyreqwest.client import Client, ClientBuilder

from duetime.delivery.receiver import Receiver

# Receivers close idle connections, many after 5 s. A request written just then is lost without a
# trace of whether it arrived, so connections are given up a little sooner from this side.
_IDLE = timedelta(seconds=4)


class Clients:
    """The clients in use, the least recently used one going first."""

    def __init__(self, *, size: int, connect_timeout: timedelta) -> None:
        self._size = size
        self._connect_timeout = connect_timeout
        self._clients: OrderedDict[tuple[str, str], Client] = OrderedDict()
        self._building: dict[tuple[str, str], asyncio.Future[Client]] = {}

    def ready(self, receiver: Receiver, address: str) -> Client | None:
        """The client, if there is one already."""
        key = (receiver.origin, address)
        client = self._clients.get(key)
        if client is not None:
            self._clients.move_to_end(key)
        return client

    async def make(self, receiver: Receiver, address: str) -> Client:
        """Make the client off the event loop, once for all who ask meanwhile."""
        key = (receiver.origin, address)
        building = self._building.get(key)
        if building is None:
            building = self._building[key] = asyncio.get_running_loop().run_in_executor(
                None, self._build, receiver, address
            )
            building.add_done_callback(lambda _: self._building.pop(key))
        client = await asyncio.shield(building)
        if key not in self._clients:
            self._clients[key] = client
            if len(self._clients) > self._size:
                # Let go, not closed: requests that are under way on it finish first.
                self._clients.popitem(last=False)
        return client

    async def close(self) -> None:
        while self._clients:
            await self._clients.popitem()[1].close()

    def _build(self, receiver: Receiver, address: str) -> Client:
        builder = (
            ClientBuilder()
            .follow_redirects(enable=False)
            .no_proxy()
            .http1_only()
            .referer(enable=False)
            .default_cookie_store(enable=False)
            # Nothing is unpacked, so a small answer cannot become a large one.
            .gzip(enable=False)
            .brotli(enable=False)
            .zstd(enable=False)
            .deflate(enable=False)
            .connect_timeout(self._connect_timeout)
            .pool_idle_timeout(_IDLE)
        )
        if receiver.literal is None:
            builder = builder.resolve(receiver.host, address, receiver.port)
        return builder.build()
