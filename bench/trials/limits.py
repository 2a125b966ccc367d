"""Whether limits hold under load in a cluster of three: ``python -m bench.trials.limits``.

Three nodes, each a process of its own, share a PostgreSQL server. Far more is due than the limits
allow, made through all nodes. A receiver counts what comes in each second. Then one node is killed,
and after a while another one comes in its place. It prints what came beside what was allowed.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.request import Request, urlopen

import uvloop

from bench.arrivals import Arrivals, receiving
from bench.databases import Database, opening
from bench.servers import duetime
from duetime.benching import requests
from duetime.benching.load import flood
from duetime.benching.process import Process
from duetime.clock import to_rfc3339

NODES = 3
FIRST = 5  # seconds in which the nodes find out who has how much to do
STEADY = 20
WITHOUT = 18  # seconds with a node less: it takes CLAIM_TTL until the others know
AGAIN = 12
BATCH = 500
ANSWER_AFTER = 0.1  # seconds; so that concurrency is something


class Case(NamedTuple):
    """What is limited, and to what."""

    name: str
    put: str  # where the limits are set
    limits: Mapping[str, float]

    @property
    def rate(self) -> float | None:
        """How many may come in a second."""
        return self.limits.get("per_second")


def cases(port: int) -> list[Case]:
    """Limits of each kind."""
    return [
        Case("group, 50 a second", "/groups/limited", {"per_second": 50}),
        Case("group, 200 a second", "/groups/limited", {"per_second": 200}),
        Case("tenant, 100 a second", "/tenants/default", {"per_second": 100}),
        Case("target, 100 a second", f"/targets/127.0.0.1:{port}", {"per_second": 100}),
        Case("group, 20 at once", "/groups/limited", {"concurrency": 20}),
    ]


class Cluster:
    """Three nodes on one database."""

    def __init__(self, database: Database, stack: AsyncExitStack) -> None:
        self._database = database
        self._stack = stack
        self.nodes: list[Process] = []

    async def add(self) -> None:
        node = duetime(self._database, CLAIM_TTL="10s")
        self.nodes.append(await self._stack.enter_async_context(node))


async def run(case: Case, cluster: Cluster, arrivals: Arrivals) -> None:
    """Set the limits, make more than they allow, and count."""
    await asyncio.to_thread(_put, cluster.nodes[0].port, case.put, {"limits": dict(case.limits)})
    path = "/" + case.name.replace(" ", "-").replace(",", "")
    due = time.time() + 8
    seconds = FIRST + STEADY + WITHOUT + AGAIN
    count = round((case.rate or 20 / ANSWER_AFTER) * seconds * 1.5)
    bodies = [
        b'{"execute_at":"%s","group":"limited","callback":{"type":"http","url":"%s"}}'
        % (to_rfc3339(int(1000 * due)).encode(), f"http://127.0.0.1:{arrivals.port}{path}".encode())
        for _ in range(count)
    ]
    for number, node in enumerate(cluster.nodes):
        await flood(node.port, requests.batches(bodies[number::NODES], BATCH), 2)
    assert time.time() < due, "the machine is too slow to make so many in time"
    await asyncio.sleep(due + FIRST - time.time())
    began = arrivals.per_second(path, due, FIRST)
    most_at_first = arrivals.most[path]
    arrivals.most[path] = arrivals.under_way[path]
    await asyncio.sleep(due + FIRST + STEADY - time.time())
    most = arrivals.most[path]
    cluster.nodes.pop().kill()
    await asyncio.sleep(due + FIRST + STEADY + WITHOUT - time.time())
    await cluster.add()
    came_at = time.time()
    await asyncio.sleep(AGAIN)
    steady = arrivals.per_second(path, due + FIRST, STEADY)
    without = arrivals.per_second(path, due + FIRST + STEADY, WITHOUT)
    again = arrivals.per_second(path, came_at, AGAIN)
    print(f"{case.name:24}first seconds {began}")
    for what, counts in (("steady", steady), ("one killed", without), ("one more", again)):
        mean = sum(counts) / len(counts)
        share = f" ({100 * mean / case.rate:.1f} %)" if case.rate else ""
        print(f"{'':24}{what:11} {mean:7.1f} a second{share}, {min(counts)} to {max(counts)}")
    if case.rate is None:
        print(
            f"{'':24}at once: at first {most_at_first}, steady {most}, "
            f"with a node that goes and comes {arrivals.most[path]}"
        )


def _put(port: int, path: str, body: Mapping[str, object]) -> None:
    content = json.dumps(body).encode()
    request = Request(
        f"http://127.0.0.1:{port}{path}", content, {"X-API-Key": requests.KEY}, method="PUT"
    )
    with urlopen(request, timeout=10) as answer:
        answer.read()


async def trial(store: str, data: Path, only: str | None) -> None:
    """Each case with a database and nodes of its own."""
    async with opening.opened(store, data) as databases, receiving(ANSWER_AFTER) as arrivals:
        for case in cases(arrivals.port):
            if only is not None and only not in case.name:
                continue
            async with databases.fresh() as database, AsyncExitStack() as stack:
                cluster = Cluster(database, stack)
                for _ in range(NODES):
                    await cluster.add()
                await asyncio.sleep(5)  # until they have heard of each other
                await run(case, cluster, arrivals)


def main() -> None:
    """Run the trial."""
    parser = argparse.ArgumentParser(prog="python -m bench.trials.limits", description=__doc__)
    parser.add_argument("--store", default="postgres")
    parser.add_argument("--only", help="cases whose names have this in them")
    parser.add_argument("--data", type=Path, help="a folder for the database")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        uvloop.run(trial(options.store, options.data or Path(folder), options.only))


if __name__ == "__main__":
    main()
