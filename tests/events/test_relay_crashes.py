"""A relay that is killed where it matters most: the next one goes on, and nothing is lost."""

import asyncio
import signal
import sys

import pytest

from duetime.outbox import Outbox
from duetime.stores.sqlite.store import SqliteStore
from tests.events.conftest import waiting
from tests.events.lives import live
from tests.events.reading import check_published

pytestmark = pytest.mark.promise("events-arrive")


@pytest.fixture
async def store(tmp_path):
    """A database that the test shares with the processes that it kills."""
    opened = SqliteStore(tmp_path / "duetime.db")
    await opened.migrate()
    yield opened
    await opened.close()


@pytest.fixture
def publish(url, post, tmp_path):
    """Runs a process that publishes; answers how it ended."""

    async def run(*fault: str) -> int:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.events.relay_process"),
            *(tmp_path / "duetime.db", url, post.stream.name, *fault),
        )
        async with asyncio.timeout(30):
            return await process.wait()

    return run


async def test_killed_between_commit_and_publish(store, post, publish):
    """Nothing was published, and all of it is by the next one."""
    await live(Outbox(store), 5)
    written = await waiting(store)
    assert await publish("before_publishing") == -signal.SIGKILL
    assert await post.read() == []
    assert await waiting(store) == written
    assert await publish() == 0
    assert check_published(await post.read(), written) == 0
    assert await waiting(store) == []


async def test_killed_between_publish_and_mark(store, post, publish):
    """All was published, and is again: the stream knows every message again."""
    await live(Outbox(store), 5)
    written = await waiting(store)
    assert await publish("before_forgetting") == -signal.SIGKILL
    published = await post.read()
    assert check_published(published, written) == 0
    assert await waiting(store) == written
    assert await publish() == 0
    assert await post.read() == published
    assert await waiting(store) == []


async def test_what_is_published_again_has_the_same_id(store, post, publish):
    """Where a stream does not know it again, whoever reads it can."""
    await live(Outbox(store), 5)
    written = await waiting(store)
    await post.limit(no_ack=False, duplicate_window=0.1)
    assert await publish("before_forgetting") == -signal.SIGKILL
    while (await post.theirs.stream_info(post.stream.name)).state.messages < 40:
        # Until the stream has forgotten the first ones, which it does after a tenth of a second.
        assert await publish("before_forgetting") == -signal.SIGKILL
    assert await publish() == 0
    assert check_published(await post.read(), written) >= 20
    assert await waiting(store) == []
