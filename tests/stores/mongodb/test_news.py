"""News between nodes: heard by other nodes, and again after the connection was lost."""

import asyncio

from duetime.stores import News, Waking
from duetime.stores.mongodb import news
from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.store import MongodbStore
from tests.factories import make_timer


async def heard_by(store):
    """What a node hears, from the moment that it listens."""
    heard = asyncio.Queue()
    store.listen(heard.put_nowait)
    async with asyncio.timeout(20):
        assert await heard.get() == News(is_about_nodes=True)
    return heard


async def test_another_node_hears(mongodb, url):
    """What one announces, the other hears."""
    other = MongodbStore(Address.parse(url))
    await other.migrate()
    heard = await heard_by(other)
    told = News((Waking.of(make_timer()),))
    await mongodb.announce(told)
    async with asyncio.timeout(20):
        assert await heard.get() == told
    await other.close()


async def test_who_listens_before_the_store_is_open_hears_too(url):
    """It begins once there is a database to listen to."""
    store = MongodbStore(Address.parse(url))
    heard = asyncio.Queue()
    store.listen(heard.put_nowait)
    await store.migrate()
    async with asyncio.timeout(20):
        assert await heard.get() == News(is_about_nodes=True)
    await store.close()


async def test_what_lost_its_place_begins_anew(mongodb, database, monkeypatch):
    """And whoever listens is told that something may have been missed."""
    monkeypatch.setattr(news, "RECONNECT_EVERY", 0.01)
    heard = await heard_by(mongodb)
    # What is read along is gone. Made anew, it can be read again.
    await database["news"].drop()
    await database.create_collection("news", capped=True, size=1024 * 1024)
    async with asyncio.timeout(20):
        assert await heard.get() == News(is_about_nodes=True)
        told = News((Waking.of(make_timer()),))
        await mongodb.announce(told)
        while await heard.get() != told:
            pass


async def test_what_another_version_says_is_passed_over(mongodb, database):
    """News that are not understood harm nobody."""
    heard = await heard_by(mongodb)
    await database["news"].insert_one({"body": '{"of": "another time"}'})
    await mongodb.announce(News(is_about_nodes=True))
    async with asyncio.timeout(20):
        assert await heard.get() == News(is_about_nodes=True)


async def test_old_news_are_not_told(mongodb, url):
    """Who begins to listen hears what is announced from then on."""
    await mongodb.announce(News((Waking.of(make_timer()),)))
    other = MongodbStore(Address.parse(url))
    await other.migrate()
    heard = await heard_by(other)
    told = News((Waking.of(make_timer()),))
    await mongodb.announce(told)
    async with asyncio.timeout(20):
        assert await heard.get() == told
    await other.close()


async def test_a_silent_line_is_given_up(mongodb, monkeypatch):
    """A server that says nothing for too long is asked anew."""
    monkeypatch.setattr(news, "SILENT_FOR", 0.2)
    monkeypatch.setattr(news, "RECONNECT_EVERY", 0.01)
    heard = await heard_by(mongodb)
    async with asyncio.timeout(20):
        assert await heard.get() == News(is_about_nodes=True)
