"""Whether a tenant with very many timers delays another's ten: ``python -m bench.trials.fairness``.

Both call the same host, which answers at once. Three ways to be due: all at the same moment, the
ten made last; all late, in the store before the node starts, the ten due last; and ten in each
second, while the node works off the backlog of the other. The figures are of the ten: how late they
arrive, or how long after the node was ready if they were late by then; alone, and beside the many.
"""

import argparse
import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from bench import tenants
from bench.arrivals import Arrivals, receiving
from bench.databases import Database, Databases, opening
from bench.servers import duetime
from duetime.benching.load import flood
from duetime.clock import to_rfc3339

TEN = 10
BATCH = 1_000
SECONDS = 10  # for which ten are due in each
LONGEST = 600.0  # seconds that all of it may take


def timers(arrivals: Arrivals, path: str, dues: list[float], key: str) -> list[bytes]:
    """The requests that create timers, each due at its time."""
    url = f"http://127.0.0.1:{arrivals.port}{path}"
    bodies = [
        b'{"execute_at":"%s","callback":{"type":"http","url":"%s"}}'
        % (to_rfc3339(int(1000 * due)).encode(), url.encode())
        for due in dues
    ]
    return [
        _post(b'{"timers":[' + b",".join(bodies[at : at + BATCH]) + b"]}", key)
        for at in range(0, len(bodies), BATCH)
    ]


def _post(content: bytes, key: str) -> bytes:
    return (
        b"POST /timers/batch HTTP/1.1\r\nhost: bench\r\nx-api-key: %s\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
    ) % (key.encode(), len(content), content)


async def together(database: Database, arrivals: Arrivals, many: int) -> list[float]:
    """All are due at one moment, and the ten were made last."""
    async with duetime(database) as server:
        busy, quiet = (tenants.make(server.port, name) for name in ("busy", "quiet"))
        due = time.time() + 10 + many / 4_000
        await _make(server.port, timers(arrivals, "/many", [due] * many, busy))
        await _make(server.port, timers(arrivals, "/ten", [due] * TEN, quiet))
        assert time.time() < due, "the machine is too slow to make so many in time"
        await _until(arrivals, TEN)
        return arrivals.lateness_ms("/ten")


async def late(database: Database, arrivals: Arrivals, many: int) -> list[float]:
    """All are late when the node starts, the ten less so than the many."""
    await _left_behind(database, arrivals, many, TEN)
    async with duetime(database):
        ready = time.time()
        await _until(arrivals, TEN)
        return [max(each, 0.0) for each in arrivals.lateness_ms("/ten", since=ready)]


async def beside(database: Database, arrivals: Arrivals, many: int) -> list[float]:
    """The many are late when the node starts; ten more are due in each second after that."""
    await _left_behind(database, arrivals, many, 0)
    async with duetime(database) as server:
        key = str(
            tenants.ask(server.port, "/tenants/quiet/keys", {"name": "more", "role": "write"})[
                "key"
            ]
        )
        start = time.time() + 2
        dues = [start + number / TEN for number in range(TEN * SECONDS)]
        await _make(server.port, timers(arrivals, "/ten", dues, key))
        await _until(arrivals, TEN * SECONDS)
        return arrivals.lateness_ms("/ten")


async def _left_behind(database: Database, arrivals: Arrivals, many: int, ten: int) -> None:
    """Timers that fall due while no node runs."""
    async with duetime(database) as server:
        busy, quiet = (tenants.make(server.port, name) for name in ("busy", "quiet"))
        due = time.time() + 15 + many / 4_000
        await _make(server.port, timers(arrivals, "/many", [due] * many, busy))
        await _make(server.port, timers(arrivals, "/ten", [due + 0.5] * ten, quiet))
    assert time.time() < due, "the machine is too slow to make so many in time"
    await asyncio.sleep(due + 1 - time.time())


async def _make(port: int, requests: list[bytes]) -> None:
    if requests:
        await flood(port, requests, min(len(requests), 4))


async def _until(arrivals: Arrivals, count: int) -> None:
    give_up_at = time.monotonic() + LONGEST
    while len(arrivals.came["/ten"]) < count:
        assert time.monotonic() < give_up_at, "they never came"
        await asyncio.sleep(0.02)


async def run(databases: Databases, many: int, rounds: int, only: str | None) -> None:
    """Each way alone and beside the many, in turn; print what the ten saw in all rounds."""
    print(f"milliseconds, {rounds} rounds{'':21}p50      p99      max   of the many by then")
    for way in (each for each in (together, late, beside) if only in (None, each.__name__)):
        for count in (0, many):
            seen: list[float] = []
            done: list[int] = []
            for _ in range(rounds):
                async with AsyncExitStack() as stack:
                    database = await stack.enter_async_context(databases.fresh())
                    arrivals = await stack.enter_async_context(receiving())
                    seen += await way(database, arrivals, count)
                    done.append(len(arrivals.came["/many"]))
            ordered = sorted(seen)
            p50, p99 = (ordered[min(int(s * len(ordered)), len(ordered) - 1)] for s in (0.5, 0.99))
            what = f"{way.__name__}, " + (f"beside {count:,}" if count else "alone")
            print(f"{what:32}{p50:9.1f}{p99:9.1f}{ordered[-1]:9.1f}   {max(done):,}", flush=True)


async def trial(options: argparse.Namespace, data: Path) -> None:
    """Run it on databases of the store that was asked for."""
    async with opening.opened(options.store, data) as databases:
        await run(databases, options.many, options.rounds, options.only)


def main() -> None:
    """Run the trial."""
    parser = argparse.ArgumentParser(prog="python -m bench.trials.fairness", description=__doc__)
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--many", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=[way.__name__ for way in (together, late, beside)])
    parser.add_argument("--data", type=Path, help="a folder for the databases")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        uvloop.run(trial(options, options.data or Path(folder)))


if __name__ == "__main__":
    main()
