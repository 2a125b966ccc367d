"""Whether a tenant at its quota disturbs another: ``python -m bench.trials.neighbours``.

One tenant makes timers at a steady pace. Another, whose quota is far below what it asks for, asks
again as soon as it is refused, on many connections, from a process of its own. Stretches with and
without the second one alternate; the figures are those of the first: how long its creates take, and
how late its timers arrive.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import uvloop

from bench import requests
from bench.databases import opening
from bench.load import flood
from bench.process import started
from bench.servers import Sink, duetime, sink

PER_SECOND = 200
CONNECTIONS = 8
LOUD_CONNECTIONS = 32
LOUD_QUOTA = 50
AHEAD = 2_000  # milliseconds from a timer's creation until it is due


class Stretch(NamedTuple):
    """What the quiet tenant saw, in milliseconds."""

    creates: list[float]
    lateness: list[float]


def percentile(values: list[float], share: float) -> float:
    """The value that this share stays within."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


async def stretch(port: int, key: str, sink_: Sink, seconds: int) -> Stretch:
    """Make timers for so long, and wait until all have arrived."""
    await sink_.forget()
    count = PER_SECOND * seconds
    free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    creates: list[float] = []

    async def create(number: int) -> None:
        reader, writer = await free.get()
        body = requests.soon(sink_.port, AHEAD, number)
        began_at = time.perf_counter()
        writer.write(_post(body, key))
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        creates.append(1000 * (time.perf_counter() - began_at))
        assert head.startswith(b"HTTP/1.1 201"), head
        free.put_nowait((reader, writer))

    began_at = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            await asyncio.sleep(max(began_at + number / PER_SECOND - time.perf_counter(), 0))
            group.create_task(create(number))
    while await sink_.count() < count:  # noqa: ASYNC110 - it is another process
        await asyncio.sleep(0.1)
    while not free.empty():
        free.get_nowait()[1].close()
    return Stretch(creates, (await sink_.receipts()).lateness_ms)


async def be_loud(port: int, key: str) -> None:
    """Ask for as many timers as can be had, for ever."""
    body = requests.soon(1, 3_600_000, 0)
    while True:
        await flood(port, [_post(body, key)] * 2_000, LOUD_CONNECTIONS)


async def run(store: str, data: Path, seconds: int, rounds: int) -> None:
    """Alternate, and print the medians of all rounds."""
    async with (
        opening.opened(store, data) as databases,
        sink() as sink_,
        databases.fresh() as database,
        duetime(database) as server,
    ):
        quiet = _key(server.port, "quiet", {})
        loud = _key(server.port, "loud", {"creates_per_second": LOUD_QUOTA})
        await stretch(server.port, quiet, sink_, 3)  # to warm up
        stretches: dict[str, list[Stretch]] = {"alone": [], "beside the loud one": []}
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            stretches["alone"].append(await stretch(server.port, quiet, sink_, seconds))
            arguments = ["--loud", str(server.port), loud]
            async with started(["-m", "bench.trials.neighbours", *arguments]):
                await asyncio.sleep(2)
                beside = await stretch(server.port, quiet, sink_, seconds)
            stretches["beside the loud one"].append(beside)
            await asyncio.sleep(1)
    _print(stretches)


def _print(stretches: dict[str, list[Stretch]]) -> None:
    print(f"{'milliseconds':24}{'alone':>10}{'beside':>10}{'ratio':>8}")
    for field in Stretch._fields:
        for share in (0.5, 0.99):
            alone, beside = (
                [percentile(getattr(each, field), share) for each in of_kind]
                for of_kind in stretches.values()
            )
            ratio = statistics.median(b / a for a, b in zip(alone, beside, strict=True))
            print(
                f"{field + f' p{share * 100:.0f}':24}{statistics.median(alone):10.2f}"
                f"{statistics.median(beside):10.2f}{ratio:8.2f}"
            )


def _key(port: int, tenant: str, quotas: dict[str, float]) -> str:
    _ask(port, "/tenants", {"name": tenant, "quotas": quotas})
    made = _ask(port, f"/tenants/{tenant}/keys", {"name": tenant, "role": "write"})
    return str(made["data"]["key"])


def _ask(port: int, path: str, body: dict[str, Any]) -> dict[str, Any]:
    content = json.dumps(body).encode()
    request = Request(f"http://127.0.0.1:{port}{path}", content, {"X-API-Key": requests.KEY})
    with urlopen(request, timeout=10) as answer:
        decoded: dict[str, Any] = json.load(answer)
        return decoded


def _post(body: bytes, key: str) -> bytes:
    return (
        b"POST /timers HTTP/1.1\r\nhost: bench\r\nx-api-key: %s\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
    ) % (key.encode(), len(body), body)


def main() -> None:
    """Run the trial, or be the loud tenant of one."""
    parser = argparse.ArgumentParser(prog="python -m bench.trials.neighbours", description=__doc__)
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, help="a folder for the databases")
    parser.add_argument("--loud", nargs=2, metavar=("PORT", "KEY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loud:
        uvloop.run(be_loud(int(options.loud[0]), options.loud[1]))
        return
    with TemporaryDirectory() as folder:
        data = options.data or Path(folder)
        uvloop.run(run(options.store, data, options.seconds, options.rounds))


if __name__ == "__main__":
    main()
