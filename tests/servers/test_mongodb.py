"""MongoDB servers of the tests: they answer, come back from a crash, and can be paused."""

import asyncio

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure, PyMongoError

from tests.servers.fixtures import FreshDatabase, OwnServer


async def test_the_shared_server_answers(server_url):
    """It is a replica set, and of the version that is said."""
    async with AsyncMongoClient(server_url("mongodb")) as client:
        assert (await client.server_info())["version"].startswith("6.0.")
        assert (await client.admin.command("hello"))["isWritablePrimary"]


async def test_a_wrong_password_is_refused(server_url):
    """The password is checked, as on a server that somebody runs."""
    async with AsyncMongoClient(server_url("mongodb"), password="wrong") as client:
        with pytest.raises(OperationFailure, match="Authentication failed"):
            await client.admin.command("listDatabases")


async def test_each_test_has_a_database_of_its_own(fresh_database: FreshDatabase):
    """Two databases are two worlds, and the URL says which."""
    urls = [await fresh_database("mongodb") for _ in range(2)]
    names = []
    for url in urls:
        async with AsyncMongoClient(url) as client:
            names.append(client.get_default_database().name)
    assert len(set(names)) == 2


@pytest.mark.slow
async def test_a_crash_and_a_pause(own_server: OwnServer):
    """What was acknowledged is there after a crash; paused it is silent, resumed it answers."""
    server = own_server("mongodb")
    async with AsyncMongoClient(server.url(w="majority", journal="true")) as client:
        kept = client.get_default_database()["kept"]
        await kept.insert_one({"_id": 42})
        server.crash()
        server.start()
        assert await kept.find_one() == {"_id": 42}
        server.pause()
        with pytest.raises((PyMongoError, TimeoutError)):
            async with asyncio.timeout(0.5):
                await kept.find_one()
        server.resume()
        assert await kept.find_one() == {"_id": 42}
