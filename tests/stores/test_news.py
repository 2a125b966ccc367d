"""News: what is passed on between nodes, where the engine has a way to do so."""

import asyncio

import pytest

from duetime.stores import News, Waking
from tests.factories import make_timer

pytestmark = pytest.mark.promise("one-contract")


async def test_announcing_is_always_allowed(store):
    """Whoever listens or not, and whether the engine can pass news on or not."""
    await store.announce(News((Waking.of(make_timer()),)))
    store.listen(lambda news: None)
    await store.announce(News(is_about_nodes=True))
    await store.announce(News())


async def test_news_are_heard_as_they_were_announced(hearing_store):
    """Every listener hears all of it, the announcing node as well."""
    heard: asyncio.Queue[News] = asyncio.Queue()
    hearing_store.listen(heard.put_nowait)
    async with asyncio.timeout(30):
        while heard.empty():  # it may take a moment until somebody listens
            await hearing_store.announce(News(is_about_nodes=True))
            await asyncio.sleep(0.01)
        lines = tuple(Waking.of(make_timer()) for _ in range(500))
        await hearing_store.announce(News(lines))
        about_timers: list[Waking] = []
        while len(about_timers) < len(lines):
            about_timers += (await heard.get()).waking
        await hearing_store.announce(News(is_about_rules=True))
        while not (await heard.get()).is_about_rules:
            pass
    assert about_timers == list(lines)
