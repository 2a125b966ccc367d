"""The bare client sends what Duetime would send, and does nothing else: the ceiling of delivery.

``burst PORT COUNT CONCURRENCY`` sends as fast as it can. ``steady PORT COUNT PER_SECOND`` sends
each request at its due instant. The client is built the way Duetime builds its own, the headers
are Duetime's, and all of them are written before the clock starts.
"""

import asyncio
import sys
import time
from datetime import timedelta

import uvloop
from msgspec import Raw
from pyreqwest.client import Client
from pyreqwest.http import Url

from bench.requests import now_ms
from duetime import ids, model
from duetime.delivery import headers
from duetime.delivery.clients import Clients
from duetime.delivery.receiver import Receiver
from duetime.model import HttpCallback, Spec, Timer

BODY = b'{"order":"A-00000000","customer":4711,"action":"expire"}'
LEAD = 2_000  # milliseconds from now to the first due instant


class Bare:
    """A client and the requests that it will send."""

    def __init__(self, client: Client, url: str, dues: list[int]) -> None:
        self._client = client
        self._url = Url(url)
        self._fields = [_fields(url, due) for due in dues]

    async def send(self, number: int) -> None:
        """Send one of the requests, and wait for its answer."""
        request = (
            self._client.request("POST", self._url)
            .headers(self._fields[number])
            .timeout(timedelta(seconds=30))
            .body_bytes(BODY)
            .build_streamed()
        )
        async with request as response:
            assert response.status == 200


def _fields(url: str, due: int) -> dict[str, str]:
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
    return headers.build(model.claim(timer, "bench", due, 10_000), callback, BODY, due, ())


async def burst(bare: Bare, count: int, concurrency: int) -> None:
    """Send all at once, so many at a time."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await bare.send(number)

    await asyncio.gather(*(worker() for _ in range(concurrency)))


async def steady(bare: Bare, dues: list[int]) -> None:
    """Send each at its due instant."""

    async def at(number: int) -> None:
        while (ahead := dues[number] / 1000 - time.time()) > 0:  # noqa: ASYNC110 - sleep may be short
            await asyncio.sleep(ahead)
        await bare.send(number)

    await asyncio.gather(*(at(number) for number in range(len(dues))))


async def main() -> None:
    """Do what the arguments say."""
    how, port, count, amount = sys.argv[1], *map(int, sys.argv[2:])
    url = f"http://127.0.0.1:{port}/hook"
    clients = Clients(size=1, connect_timeout=timedelta(seconds=10))
    client = await clients.make(Receiver(Url(url)), "127.0.0.1")
    start = now_ms()
    if how == "burst":
        await burst(Bare(client, url, [start] * count), count, amount)
    else:
        dues = [start + LEAD + number * 1000 // amount for number in range(count)]
        await steady(Bare(client, url, dues), dues)
    await clients.close()


if __name__ == "__main__":
    uvloop.run(main())
