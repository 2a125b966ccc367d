"""News on a line of their own, which may be lost."""

import asyncio

from duetime.stores import News, Waking
from tests.factories import make_timer
from tests.servers.redis import session


async def test_a_lost_line_is_told_and_listened_on_again(own, own_store):
    """Something may have been missed meanwhile, and what is no news harms nobody."""
    heard: asyncio.Queue[News] = asyncio.Queue()
    own_store.listen(heard.put_nowait)
    async with asyncio.timeout(30), session(own.url()) as client:
        assert await heard.get() == News(is_about_nodes=True)
        await client.publish(own_store._channel, b"\xff{")
        await client.client_kill_filter(_type="pubsub")
        assert await heard.get() == News(is_about_nodes=True)
        news = News((Waking.of(make_timer()),))
        await own_store.announce(news)
        assert await heard.get() == news


async def test_databases_of_one_server_do_not_hear_each_other(own, own_store):
    """Though channels know nothing of databases."""
    beside = type(own_store)(own_store._address._replace(database=1))
    await beside.migrate()
    heard: asyncio.Queue[News] = asyncio.Queue()
    own_store.listen(heard.put_nowait)
    async with asyncio.timeout(30):
        await heard.get()
        await beside.announce(News(is_about_nodes=True))
        mine = News((Waking.of(make_timer()),))
        await own_store.announce(mine)
        assert await heard.get() == mine
    await beside.close()
