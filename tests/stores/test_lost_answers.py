"""A write whose answer is lost: once the caller hears of it, a look tells what became of it."""

import asyncio

import pytest

from duetime.errors import StoreUnavailable, Unanswered
from duetime.stores import Insert
from duetime.stores.opening import open_store
from tests.cluster.proxy import proxied
from tests.factories import claim_of, claimed, insert, make_timer
from tests.servers.kinds import DATABASES
from tests.waiting import until

ASK_AGAIN = {"MongoDB", "DynamoDB"}  # what became of it, and need not raise


@pytest.fixture(params=DATABASES)
async def cut_off(request, fresh_database):
    """A store that reaches its server through a proxy, and the proxy."""
    url = await fresh_database(request.param)
    async with proxied(url) as (proxy, through):
        store = open_store(through)
        await store.migrate()
        yield store, proxy
        proxy.pass_answers()
        await store.close()


@pytest.mark.parametrize("is_new", [True, False], ids=["insert", "apply"])
async def test_a_write_whose_answer_is_lost(cut_off, is_new):
    """It was made once: the store finds that out, or raises when it is over for a look to tell."""
    store, proxy = cut_off
    timer = make_timer()
    if not is_new:
        await insert(store, timer)
    proxy.drop_answers()
    write = asyncio.create_task(
        store.insert([Insert(timer)]) if is_new else store.apply([claim_of(timer)])
    )
    if store.traits.engine in ASK_AGAIN:
        await until(lambda: proxy.dropped >= 1, "an answer to be lost")
        proxy.pass_answers()
        assert await write == ([None] if is_new else [True])
    else:
        with pytest.raises(StoreUnavailable) as lost:
            await write
        assert not isinstance(lost.value, Unanswered)
        assert proxy.dropped == 1
        proxy.pass_answers()
    assert await store.get([timer.id]) == [timer if is_new else claimed(timer)]
    assert await store.apply([claim_of(timer)]) == [is_new]
