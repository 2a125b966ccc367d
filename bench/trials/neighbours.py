"""Whether a tenant at its quota disturbs another: ``python -m bench.trials.neighbours``.

One tenant makes timers at a steady pace. Another, whose quota is far below what it asks for, asks
again as soon as it is refused, on many connections, from a process of its own. Stretches take
turns: alone; alone again, which shows what chance does; beside one who makes what its quota allows
and asks for no more, which shows what the work costs that was granted; and beside the loud one. The
figures are those of the first: how long its creates take, and how late its timers arrive.

With ``--curious``, the other asks for no timers, but to see its bulk actions, of which it has many
with long filters, again and again on 400 connections.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import choices
from tempfile import TemporaryDirectory
from typing import NamedTuple

import uvloop

from bench import tenants
from bench.databases import opening
from bench.servers import duetime
from duetime.benching import requests
from duetime.benching.load import flood, pace
from duetime.benching.process import started
from duetime.benching.servers import Sink, sink

PER_SECOND = 200
CONNECTIONS = 8
LOUD_CONNECTIONS = 32
QUOTA = 50  # timers a second that the other one may create
AHEAD = 2_000  # milliseconds from a timer's creation until it is due

_LATER = requests.soon(1, 3_600_000, 0)  # what the others create
_NEIGHBOURS = {
    "alone": None,
    "alone again": None,
    "beside a modest": "modest",
    "beside a loud": "loud",
}

CURIOUS_CONNECTIONS = 400
ACTIONS = 200  # of the curious one, which are kept
_LONG = {"metadata": {f"path{number}": "x" * 1_000 for number in range(14)}}
_CURIOUS_NEIGHBOURS = {"alone": None, "alone again": None, "beside a curious": "curious"}


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
    while True:
        await flood(port, [_post(_LATER, key)] * 2_000, LOUD_CONNECTIONS)


async def be_modest(port: int, key: str, quota: float) -> None:
    """Make as many timers as the quota allows, evenly, for long enough."""
    await pace([port], [_post(_LATER, key)] * 100_000, quota, CONNECTIONS)


async def be_curious(port: int, key: str) -> None:
    """Look at the newest action, for ever."""
    look = f"GET /actions?limit=1 HTTP/1.1\r\nhost: bench\r\nx-api-key: {key}\r\n\r\n".encode()
    while True:
        await flood(port, [look] * 20_000, CURIOUS_CONNECTIONS)


def _have_actions(port: int, key: str) -> None:
    for _ in range(ACTIONS):
        body = {"action": "cancel", "filter": _LONG, "dry_run": True}
        tenants.ask(port, "/timers/actions", body, key)


async def run(
    store: str, data: Path, quota: float, *, seconds: int, rounds: int, is_curious: bool
) -> None:
    """Alternate, and print the medians of all rounds."""
    neighbours = _CURIOUS_NEIGHBOURS if is_curious else _NEIGHBOURS
    async with (
        opening.opened(store, data) as databases,
        sink() as sink_,
        databases.fresh() as database,
        duetime(database) as server,
    ):
        quiet = tenants.make(server.port, "quiet")
        other = tenants.make(server.port, "other", {"creates_per_second": quota})
        if is_curious:
            await asyncio.to_thread(_have_actions, server.port, other)
        await stretch(server.port, quiet, sink_, 3)  # to warm up
        stretches: dict[str, list[Stretch]] = {kind: [] for kind in neighbours}
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            # Each is the first in its turn: what grows or warms up meanwhile favours none.
            kinds = deque(neighbours)
            kinds.rotate(number)
            for kind in kinds:
                async with _neighbour(neighbours[kind], server.port, other, quota):
                    stretches[kind].append(await stretch(server.port, quiet, sink_, seconds))
                await asyncio.sleep(1)
    _print(stretches)


@asynccontextmanager
async def _neighbour(manner: str | None, port: int, key: str, quota: float) -> AsyncIterator[None]:
    if manner is None:
        await asyncio.sleep(2)
        yield
        return
    async with started(
        ["-m", "bench.trials.neighbours", "--quota", str(quota), "--be", manner, str(port), key]
    ):
        await asyncio.sleep(2)
        yield


def _print(stretches: dict[str, list[Stretch]]) -> None:
    first, *others = stretches
    print(f"{'milliseconds':14}{first:>8}" + "".join(f"{kind:>17}{'ratio':>18}" for kind in others))
    for field in Stretch._fields:
        for share in (0.5, 0.95, 0.99):
            figures = {
                kind: [percentile(getattr(each, field), share) for each in of_kind]
                for kind, of_kind in stretches.items()
            }
            alone = figures.pop(first)
            line = f"{field + f' p{share * 100:.0f}':14}{statistics.median(alone):8.2f}"
            for beside in figures.values():
                ratios = [b / a for a, b in zip(alone, beside, strict=True)]
                line += f"{statistics.median(beside):17.2f}{_with_doubt(ratios):>18}"
            print(line)


def _with_doubt(ratios: list[float]) -> str:
    """The median, and between what it lies in nine of ten draws from what was measured."""
    draws = sorted(statistics.median(choices(ratios, k=len(ratios))) for _ in range(2_000))
    return f"{statistics.median(ratios):.2f} ({draws[100]:.2f}-{draws[1900]:.2f})"


def _post(body: bytes, key: str) -> bytes:
    return (
        b"POST /timers HTTP/1.1\r\nhost: bench\r\nx-api-key: %s\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
    ) % (key.encode(), len(body), body)


def main() -> None:
    """Run the trial, or be the loud tenant of one."""
    parser = argparse.ArgumentParser(prog="python -m bench.trials.neighbours", description=__doc__)
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--quota", type=float, default=QUOTA, help="of the other one, per second")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, help="a folder for the databases")
    parser.add_argument("--curious", action="store_true", help="the other looks at its actions")
    parser.add_argument("--be", nargs=3, help=argparse.SUPPRESS)  # how, port, key
    options = parser.parse_args()
    if options.be:
        manner, port, key = options.be
        if manner == "loud":
            uvloop.run(be_loud(int(port), key))
        elif manner == "curious":
            uvloop.run(be_curious(int(port), key))
        else:
            uvloop.run(be_modest(int(port), key, options.quota))
        return
    with TemporaryDirectory() as folder:
        trial = run(
            options.store,
            options.data or Path(folder),
            options.quota,
            seconds=options.seconds,
            rounds=options.rounds,
            is_curious=options.curious,
        )
        uvloop.run(trial)


if __name__ == "__main__":
    main()
