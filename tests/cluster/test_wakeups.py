"""Timers that are made on one node and looked after by another, on real PostgreSQL."""

from datetime import datetime
from pathlib import Path

import pytest

from duetime import ids
from duetime.cli.receiver import Arrival, running_receiver
from duetime.clock import from_datetime
from tests.cluster.conftest import POSTGRES
from tests.cluster.nodes import Cluster, running_cluster
from tests.servers.fixtures import FreshDatabase, OwnPgbouncer, OwnPostgres
from tests.system.service import ServiceProcess
from tests.waiting import eventually, until

pytestmark = pytest.mark.slow

COUNT = 100
NEVER = "1h"  # for a test, this is never


async def others_shards(cluster: Cluster) -> set[int]:
    """The shards that the second node looks after, once the two have shared them."""

    async def shared() -> set[int]:
        answer = await cluster.nodes[0].call("GET", "/nodes?shards=ranges")
        other = [node for node in answer.data["nodes"] if not node["is_this"]]
        ranges = other[0]["shard_ranges"] if len(other) == 1 else ""
        return numbers(ranges) if ranges else set()

    return await eventually(shared, "two nodes that share the shards")


def numbers(ranges: str) -> set[int]:
    """What "0-3,17" means."""
    bounds = [part.split("-") for part in ranges.split(",")]
    return {n for bound in bounds for n in range(int(bound[0]), int(bound[-1]) + 1)}


async def create(node: ServiceProcess, url: str) -> tuple[str, int]:
    """Make a timer that is due in 50 ms; the answer is its id, and when it is due."""
    body = {"delay": "50ms", "callback": {"type": "http", "url": url}}
    timer = (await node.call("POST", "/timers", body)).data
    return str(timer["id"]), from_datetime(datetime.fromisoformat(timer["execute_at"]))


async def fired(cluster: Cluster) -> tuple[set[str], list[Arrival]]:
    """Make timers on the first node, and wait for all of them; those of the other's shards."""
    arrivals: list[Arrival] = []
    others = await others_shards(cluster)
    async with running_receiver("127.0.0.1", 0, arrivals.append) as port:
        url = f"http://127.0.0.1:{port}/hook"
        made = dict([await create(cluster.nodes[0], url) for _ in range(COUNT)])
        await until(lambda: len(arrivals) >= COUNT, "every timer")
    assert sorted(arrival.headers["x-timer-id"] for arrival in arrivals) == sorted(made)
    # By what was acknowledged, whatever an arrival says of itself.
    assert [each for each in arrivals if each.at < made[each.headers["x-timer-id"]]] == []
    return {id_ for id_ in made if ids.shard_of(id_) in others}, arrivals


async def starters(cluster: Cluster, timers: set[str]) -> str:
    """The names of the nodes that started these timers; they end with the process."""
    node = cluster.nodes[0]
    answers = [await node.call("GET", f"/timers/{id_}/attempts") for id_ in timers]
    return " ".join(line["node"] for answer in answers for line in answer.data["attempts"])


async def test_news_reach_the_node_that_looks_after_a_timer(
    tmp_path: Path, fresh_database: FreshDatabase
):
    """Due in 50 ms, made elsewhere, and no poll would find it: LISTEN and NOTIFY do."""
    url = await fresh_database(POSTGRES)
    async with running_cluster(tmp_path, url, count=2, POLL_INTERVAL=NEVER) as cluster:
        others, arrivals = await fired(cluster)
        assert len(others) > COUNT // 10
        # But for those that a busy machine wrote so late that the first node had to start them.
        assert f"-{cluster.nodes[1].pid}-" in await starters(cluster, others)
    assert [arrival for arrival in arrivals if (arrival.lateness or 0) < 0] == []


async def test_without_news_the_poll_finds_it(
    tmp_path: Path, own_postgres: OwnPostgres, own_pgbouncer: OwnPgbouncer
):
    """Behind a pooler in transaction mode nobody can listen: each comes by the next poll."""
    pooler = own_pgbouncer(own_postgres(POSTGRES))
    url = pooler.url("postgres", pooler="transaction")
    async with running_cluster(tmp_path, url, count=2, POLL_INTERVAL="200ms") as cluster:
        others, arrivals = await fired(cluster)
        assert len(others) > COUNT // 10
        assert f"-{cluster.nodes[1].pid}-" in await starters(cluster, others)
    assert [arrival for arrival in arrivals if (arrival.lateness or 0) < 0] == []
