"""Whether time tells that another's timer exists: ``python -m bench.trials.strangers``.

Somebody asks for timers of another tenant and for ids that nobody has, in turn; all are not found.
For each kind, the figures are the medians of both, and how often the other's took longer than
the nobody's next to it: 50 % is what chance does, and whoever wants to tell them apart needs more.
"""

import argparse
import asyncio
import statistics
import time
from http.client import HTTPConnection
from pathlib import Path
from random import shuffle
from tempfile import TemporaryDirectory

from bench import tenants
from bench.databases import opening
from bench.servers import duetime
from duetime import ids

_LATER = {"delay": "1h"}
_KINDS = {"small": 10, "20 kB": 20_000, "300 kB": 300_000}


async def run(store: str, data: Path, rounds: int) -> None:
    """Ask, and print a line for each kind of timer."""
    async with (
        opening.opened(store, data) as databases,
        databases.fresh() as database,
        duetime(database) as server,
    ):
        owner, stranger = (tenants.make(server.port, name) for name in ("owner", "stranger"))
        print(f"{'not found, ms':24}{'another':>9}{'nobody':>9}{'longer':>9}")
        for kind, size in _KINDS.items():
            for key in ("", "with a key, "):
                body = {
                    **_LATER,
                    **({"timer_id": f"order-{size}"} if key else {}),
                    "callback": {
                        "type": "http",
                        "url": "http://127.0.0.1:1/",
                        "payload": "x" * size,
                    },
                }
                made = tenants.ask(server.port, "/timers", body, owner)
                await asyncio.to_thread(
                    _compare, server.port, stranger, made["id"], rounds, key + kind
                )


def _compare(port: int, key: str, anothers: str, rounds: int, title: str) -> None:
    connection = HTTPConnection("127.0.0.1", port)
    took: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(rounds):
        nobodys = ids.new_id(ids.time_of(anothers), ids.shard_of(anothers))
        order = [True, False]
        shuffle(order)
        for is_anothers in order:
            began_at = time.perf_counter()
            path = f"/timers/{anothers if is_anothers else nobodys}"
            connection.request("GET", path, headers={"X-API-Key": key})
            answer = connection.getresponse()
            answer.read()
            took[is_anothers].append(1000 * (time.perf_counter() - began_at))
            assert answer.status == 404
    longer = statistics.mean(a > b for a, b in zip(*took.values(), strict=True))
    medians = "".join(f"{statistics.median(times):9.3f}" for times in took.values())
    print(f"{title:24}{medians}{longer:9.0%}", flush=True)


def main() -> None:
    """Run the trial."""
    parser = argparse.ArgumentParser(prog="python -m bench.trials.strangers", description=__doc__)
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--data", type=Path, help="a folder for the databases")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        asyncio.run(run(options.store, options.data or Path(folder), options.rounds))


if __name__ == "__main__":
    main()
