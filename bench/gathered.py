"""Gathered creates: timers created by Duetime's Python client, which share requests.

It runs as its own process (``python -m bench.gathered PORT SINK_PORT COUNT AT_ONCE WARMING``), as
the producers of the rivals do, and ends with a line that says how many seconds it took.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import uvloop

from duetime.benching import requests
from duetime.client import AsyncClient, Gatherer


async def create(port: int, sink_port: int, count: int, at_once: int, warming: int) -> float:
    """Create so many, each by a call of its own, and so many of these at once."""
    url = f"http://127.0.0.1:{port}"
    async with AsyncClient(url, api_key=requests.KEY) as client:
        gatherer = Gatherer(client)
        await _together(gatherer, _timers(sink_port, warming), at_once)
        started = time.perf_counter()
        await _together(gatherer, _timers(sink_port, count), at_once)
        return time.perf_counter() - started


async def _together(gatherer: Gatherer, timers: Iterator[dict[str, Any]], at_once: int) -> None:
    async def one() -> None:
        for timer in timers:
            await gatherer.create(**timer)

    await asyncio.gather(*(one() for _ in range(at_once)))


def _timers(sink_port: int, count: int) -> Iterator[dict[str, Any]]:
    due = requests.now_ms() + requests.FAR
    for number in range(count):
        yield msgspec.json.decode(requests.body(sink_port, due, number))


if __name__ == "__main__":
    print(uvloop.run(create(*map(int, sys.argv[1:]))))
