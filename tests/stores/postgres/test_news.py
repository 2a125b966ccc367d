"""News by LISTEN and NOTIFY: heard whole, and heard again after the connection was lost."""

import asyncio

import asyncpg
import pytest

from duetime.stores import News, Waking
from duetime.stores.postgres import news
from duetime.stores.postgres.news import ANNOUNCING, channel_of, payloads
from tests.factories import make_timer

ABOUT_NODES = News(is_about_nodes=True)
FAILURES = [
    ConnectionRefusedError(),
    TimeoutError(),
    asyncpg.CannotConnectNowError("starting up"),
    asyncpg.InterfaceError("closed"),
    asyncpg.InternalClientError("confused"),
    UnicodeError(),
]


@pytest.fixture
async def heard(postgres, monkeypatch):
    """What a listener hears, once it listens."""
    monkeypatch.setattr(news, "RECONNECT_EVERY", 0.01)
    queue = asyncio.Queue()
    postgres.listen(queue.put_nowait)
    async with asyncio.timeout(30):
        assert await queue.get() == ABOUT_NODES  # it may have missed something before
    return queue


def lines(count):
    return tuple(Waking.of(make_timer()) for _ in range(count))


async def next_waking(heard):
    """The next news that are about timers."""
    async with asyncio.timeout(30):
        while not (news := await heard.get()).waking:
            pass
    return news.waking


async def test_all_of_much_is_heard(postgres, heard):
    """5,000 lines arrive complete and in order, in as many pieces as it takes."""
    announced = lines(5_000)
    await postgres.announce(News(announced, is_about_nodes=True))
    found = []
    while len(found) < len(announced):
        found += await next_waking(heard)
    assert tuple(found) == announced
    assert await heard.get() == ABOUT_NODES


def test_no_piece_is_too_long():
    """PostgreSQL takes less than 8,000 bytes, also where every number is as long as can be."""
    longest = Waking(-(2**63), "f" * 36, 2**31 - 1, 2**31 - 1, is_claimed=False)
    assert max(map(len, payloads(News((longest,) * 1_000)))) < 8_000
    assert list(payloads(News())) == []


async def test_a_listener_that_was_cut_off_listens_again(postgres, session, heard):
    """It notices at once, listens again, and says that something may have been missed."""
    for _ in range(2):
        ended = await session.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query = $1",
            f'LISTEN "{postgres._listener._channel}"',
        )
        assert ended == 1
        async with asyncio.timeout(5):
            assert await heard.get() == ABOUT_NODES
    announced = lines(1)
    await postgres.announce(News(announced))
    assert await next_waking(heard) == announced


async def test_garbage_is_ignored(postgres, session, heard):
    """Whatever somebody else says on the channel: the listener goes on."""
    for garbage in ("", "{}", "[", "null", '[["x"]]', "[[[1]]]", "\x01", "é" * 999):
        await session.execute("SELECT pg_notify($1, $2)", channel_of(postgres._schema), garbage)
    announced = lines(1)
    await postgres.announce(News(announced))
    assert await next_waking(heard) == announced
    assert heard.empty()


async def test_announcing_does_not_wait_for_the_disk(postgres):
    """Only this statement does not: what follows on the connection is durable again."""

    async def levels(connection):
        showing = "SHOW synchronous_commit"
        async with connection.transaction():
            await connection.execute(ANNOUNCING, "nobody", ["news"])
            within = await connection.fetchval(showing)
        before = await connection.fetchval(showing)
        await connection.execute(ANNOUNCING, "nobody", ["news"])
        return within, before, await connection.fetchval(showing)

    assert await postgres._quick.run(levels) == ("off", "on", "on")


async def test_closing_ends_the_listening(postgres, session, heard):
    """No connection is left behind, and closing twice is fine."""
    await postgres.close()
    await postgres.close()
    assert postgres._listener._task.done()


async def test_whoever_cannot_connect_goes_on_trying(postgres, session, monkeypatch):
    """A listener that finds no server is not lost: it hears as soon as there is one."""
    monkeypatch.setattr(news, "RECONNECT_EVERY", 0.01)
    tries = []
    connect = news.connect

    async def connect_at_last(address):
        tries.append(address)
        if len(tries) < len(FAILURES) + 1:
            raise FAILURES[len(tries) - 1]
        return await connect(address)

    monkeypatch.setattr(news, "connect", connect_at_last)
    queue = asyncio.Queue()
    postgres.listen(queue.put_nowait)
    async with asyncio.timeout(10):
        assert await queue.get() == ABOUT_NODES
