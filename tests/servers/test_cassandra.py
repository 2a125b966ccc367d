"""Cassandra servers of the tests: they answer, come back from a crash, and can be paused."""

import asyncio
import random

import pytest
from cassandra import OperationTimedOut
from cassandra.cluster import Cluster

from tests.servers.cassandra import VERSION, administrator
from tests.servers.fixtures import FreshDatabase, OwnServer
from tests.waiting import eventually

TABLE = (
    "CREATE KEYSPACE kept WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE kept.numbers (n int PRIMARY KEY)",
)


def numbers(session):
    return sorted(n for (n,) in session.execute("SELECT n FROM kept.numbers", timeout=1))


async def test_the_shared_server_answers(server_url):
    """It is of the version that is fetched."""
    session = administrator(server_url("cassandra"))
    assert session.execute("SELECT release_version FROM system.local").one() == (VERSION,)


async def test_each_test_has_a_keyspace_of_its_own(fresh_database: FreshDatabase):
    """Two that are in use at once are different, and the URL says which."""
    urls = [await fresh_database("cassandra") for _ in range(2)]
    assert len({url.rpartition("/")[2] for url in urls}) == 2


def test_the_driver_draws_from_a_generator_of_its_own():
    """When a thread of it hears of another schema, what Hypothesis watches is left alone."""
    before = random.getstate()
    with Cluster(["127.0.0.1"]) as cluster:
        delay = cluster.control_connection._delay_for_event_type("schema_change", 2.0)
    assert 0 < delay < 2
    assert random.getstate() == before


@pytest.mark.slow
async def test_what_was_acknowledged_survives_a_crash(own_server: OwnServer):
    """Killed, it comes back on the same port with all it acknowledged; paused, it says nothing."""
    server = own_server("cassandra")
    session = administrator(server.url())
    for statement in TABLE:
        session.execute(statement)
    for n in range(100):
        session.execute("INSERT INTO kept.numbers (n) VALUES (%s)", [n])
    server.crash()
    server.start()

    async def is_there() -> bool:
        try:
            return numbers(session) == list(range(100))
        except Exception:  # noqa: BLE001 - the driver looks for the server now and then
            return False

    await eventually(is_there, "the driver to find the server again", within=30)
    server.pause()
    with pytest.raises(OperationTimedOut):
        await asyncio.to_thread(numbers, session)
    server.resume()
    await eventually(is_there, "the server to go on", within=30)
    session.cluster.shutdown()
