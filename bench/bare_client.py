"""A bare client sends what Duetime would send, and does nothing else: the ceiling of delivery.

``burst CLIENT PORT COUNT CONCURRENCY`` sends as fast as it can. ``steady CLIENT PORT COUNT
PER_SECOND`` sends each request at its due instant. The headers are Duetime's, and all of them are
built before the clock starts. The clients are ``pyreqwest``, the fastest library that we know, set
up like for callbacks; and ``own``, Duetime's connections.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from http import HTTPStatus
from typing import Protocol

import uvloop
from msgspec import Raw
from pyreqwest.client import ClientBuilder
from pyreqwest.http import Url

from duetime import ids, model
from duetime.benching.requests import now_ms
from duetime.clock import SystemClock
from duetime.delivery import headers
from duetime.delivery.connections import Connections
from duetime.delivery.receiver import Receiver
from duetime.timer import HttpCallback, Spec, Timer

BODY = b'{"order":"A-00000000","customer":4711,"action":"expire"}'
PATH = "/hook"
TIMEOUT = timedelta(seconds=30)
LEAD = 2_000  # milliseconds from now to the first due instant


class Client(Protocol):
    """Sends a request, and waits for its answer."""

    async def send(self, fields: dict[str, str]) -> None: ...


class Library:
    """pyreqwest."""

    def __init__(self, port: int) -> None:
        self._url = Url(f"http://127.0.0.1:{port}{PATH}")
        self._client = (
            ClientBuilder()
            .follow_redirects(enable=False)
            .no_proxy()
            .http1_only()
            .referer(enable=False)
            .gzip(enable=False)
            .brotli(enable=False)
            .zstd(enable=False)
            .deflate(enable=False)
            .build()
        )

    async def send(self, fields: dict[str, str]) -> None:
        request = (
            self._client.request("POST", self._url)
            .headers(fields)
            .timeout(TIMEOUT)
            .body_bytes(BODY)
            .build_streamed()
        )
        async with request as response:
            assert response.status == HTTPStatus.OK


class Own:
    """Duetime's connections, without all that decides about them."""

    def __init__(self, port: int) -> None:
        self._receiver = Receiver(Url(f"http://127.0.0.1:{port}/"))
        self._host = f"127.0.0.1:{port}"
        self._connections = Connections(SystemClock(), most_at_rest=512, read_at_most=64 * 1024)

    async def send(self, fields: dict[str, str]) -> None:
        head = headers.written("POST", PATH, self._host, fields)
        connection = self._connections.take(self._receiver, "127.0.0.1")
        if connection is None:
            connection = await self._connections.open(self._receiver, "127.0.0.1", 10)
        response = await connection.exchange(head, BODY, TIMEOUT.total_seconds())
        self._connections.give_back(connection)
        assert response.status == HTTPStatus.OK


CLIENTS: dict[str, Callable[[int], Client]] = {"pyreqwest": Library, "own": Own}


def fields_of(due: int) -> dict[str, str]:
    """The headers of a callback that is due then."""
    url = f"http://127.0.0.1{PATH}"
    callback = HttpCallback(url=url, payload=Raw(BODY))
    id_ = ids.new_id(due, ids.spread_shard(256))
    timer = Timer(
        id=id_,
        tenant="default",
        group="default",
        timer_id=id_,
        execute_at=due,
        wake_at=due,
        created_at=due,
        updated_at=due,
        spec=Spec(callback=callback, correlation_id=id_),
    )
    return headers.build(model.claim(timer, "bench", due, 10_000), callback, due, ())


async def burst(client: Client, dues: list[int], concurrency: int) -> None:
    """Send all at once, so many at a time."""
    left = iter([fields_of(due) for due in dues])

    async def worker() -> None:
        for fields in left:
            await client.send(fields)

    await asyncio.gather(*(worker() for _ in range(concurrency)))


async def steady(client: Client, dues: list[int]) -> None:
    """Send each at its due instant."""

    async def at(due: int, fields: dict[str, str]) -> None:
        while (ahead := due / 1000 - time.time()) > 0:  # noqa: ASYNC110 - sleep may be short
            await asyncio.sleep(ahead)
        await client.send(fields)

    await asyncio.gather(*(at(due, fields_of(due)) for due in dues))


async def main() -> None:
    """Do what the arguments say."""
    how, client = sys.argv[1:3]
    port, count, amount = map(int, sys.argv[3:])
    sender, start = CLIENTS[client](port), now_ms()
    if how == "burst":
        await burst(sender, [start] * count, amount)
    else:
        await steady(sender, [start + LEAD + number * 1000 // amount for number in range(count)])


if __name__ == "__main__":
    uvloop.run(main())
