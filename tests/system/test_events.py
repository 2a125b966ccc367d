"""Real nodes with an outbox and NATS, killed and stopped under load: every version is told."""

import asyncio
import random
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from duetime.cli.receiver import running_receiver
from duetime.client import AsyncClient
from duetime.ids import ALL_SHARDS
from duetime.stores.sqlite.store import SqliteStore
from duetime.timer import Event, Status, Timer
from tests.events.reading import Read, read_stream
from tests.nats.conftest import own, stranger, subject, url  # noqa: F401 - for tests
from tests.servers.nats import NatsServer
from tests.stores.conftest import scanned
from tests.system.ledger import Ledger, put_under_load
from tests.system.service import API_KEY, ServiceProcess
from tests.waiting import eventually, until

pytestmark = [pytest.mark.slow, pytest.mark.promise("events-arrive", "events-complete")]


class Nodes:
    """Processes on one file, a receiver, and a load that goes to all of them."""

    def __init__(self, folder: Path, count: int, **settings: str) -> None:
        self.ledger = Ledger()
        settings = {"OUTBOX": "on", "CLAIM_TTL": "1s", **settings}
        self.all = [ServiceProcess(folder, **settings) for _ in range(count)]
        self._dice = random.Random(8)

    async def start(self) -> None:
        for node in self.all:
            await node.start()

    async def work(self, receiver: int, count: int = 100) -> None:
        """Let each node take so many timers, at least."""
        hook = f"http://127.0.0.1:{receiver}/hook"
        for node in self.all:
            base = f"http://127.0.0.1:{node.port}"
            async with AsyncClient(base, api_key=API_KEY, timeout=5) as client:
                over = asyncio.Event()
                load = asyncio.gather(
                    *(put_under_load(client, self.ledger, hook, self._dice, over) for _ in range(4))
                )
                wanted = len(self.ledger.created) + count
                await until(lambda wanted=wanted: len(self.ledger.created) >= wanted)
                over.set()
                await load

    async def settle(self) -> None:
        """Wait until all has been delivered."""
        await until(lambda: self.ledger.expected <= self.ledger.arrived, "every acknowledged timer")

    async def stop(self) -> None:
        for node in self.all:
            assert await node.stop() == 0

    async def end(self) -> None:
        for node in self.all:
            await node.end_if_running()


async def stored(folder: Path) -> tuple[list[Timer], list[Event]]:
    """What is in the database: all timers, and what is in the outbox."""
    store = SqliteStore(folder / "duetime.db")
    await store.migrate()
    try:
        return await scanned(store, 1_000), await store.events(ALL_SHARDS, None, 99_999)
    finally:
        await store.close()


async def check(folder: Path, found: list[Read]) -> None:
    """Of each timer that there is, every version was told, once and in order; no event waits."""
    timers, waiting = await stored(folder)
    assert waiting == []
    assert not [id_ for id_, count in Counter(each.id for each in found).items() if count > 1]
    told: dict[str, list[tuple[str, int]]] = {}
    for each in found:
        event = each.event
        told.setdefault(event["timer"], []).append((event["id"], event["version"]))
    assert told.keys() == {timer.id for timer in timers}
    for timer in timers:
        events = told[timer.id]
        assert events == sorted(events)
        versions = [version for version, _ in groupby(version for _, version in events)]
        assert versions == list(range(1, timer.version + 1))


async def is_told(folder: Path) -> bool:
    """Whether nothing waits in the outbox, nor will when callbacks under way have ended."""
    timers, waiting = await stored(folder)
    return not waiting and Status.EXECUTING not in {timer.status for timer in timers}


async def test_a_node_that_is_killed_again_and_again(tmp_path, url, stranger, subject):  # noqa: F811
    """Whatever was under way: what is stored is told, and nothing else."""
    settings = {"NATS_URL": url, "EVENTS_STREAM": subject, "NATS_PREFIX": subject}
    nodes = Nodes(tmp_path, 1, **settings)
    async with running_receiver("127.0.0.1", 0, nodes.ledger.arrivals.append, delay=20) as port:
        try:
            for _ in range(4):
                await nodes.start()
                await nodes.work(port)
                await nodes.all[0].kill()
            await nodes.start()
            await nodes.settle()
            await eventually(lambda: is_told(tmp_path), "the outbox to be empty")
            await nodes.stop()
        finally:
            await nodes.end()
    client = await stranger(url)
    await check(tmp_path, await read_stream(client, subject))
    await client.jetstream().delete_stream(subject)


async def test_two_nodes_and_a_server_that_comes_and_goes(
    tmp_path: Path,
    own: NatsServer,  # noqa: F811
    stranger,  # noqa: F811
):
    """One node is killed, the other stopped, and NATS is away in between."""
    nodes = Nodes(tmp_path, 2, NATS_URL=own.url())
    async with running_receiver("127.0.0.1", 0, nodes.ledger.arrivals.append) as port:
        try:
            await nodes.start()
            await nodes.work(port)
            own.crash()
            await nodes.work(port)
            await nodes.all[0].kill()
            own.start()
            await nodes.settle()
            await eventually(lambda: is_told(tmp_path), "the outbox to be empty")
            assert await nodes.all[1].stop() == 0
        finally:
            await nodes.end()
    client = await stranger(own.url())
    await check(tmp_path, await read_stream(client, "DUETIME_EVENTS"))


async def test_a_clean_stop_leaves_an_empty_outbox(tmp_path, url, stranger, subject):  # noqa: F811
    """Also of callbacks that were under way when it was asked for."""
    settings = {"NATS_URL": url, "EVENTS_STREAM": subject, "NATS_PREFIX": subject}
    nodes = Nodes(tmp_path, 1, **settings)
    async with running_receiver("127.0.0.1", 0, nodes.ledger.arrivals.append, delay=300) as port:
        try:
            await nodes.start()
            await nodes.work(port)
            await nodes.stop()
        finally:
            await nodes.end()
    client = await stranger(url)
    await check(tmp_path, await read_stream(client, subject))
    await client.jetstream().delete_stream(subject)


async def test_without_an_outbox_nothing_is_written(tmp_path):
    """Off is the default."""
    nodes = Nodes(tmp_path, 1, OUTBOX="off")
    async with running_receiver("127.0.0.1", 0, nodes.ledger.arrivals.append) as port:
        try:
            await nodes.start()
            await nodes.work(port)
            await nodes.stop()
        finally:
            await nodes.end()
    timers, waiting = await stored(tmp_path)
    assert len(timers) >= 100
    assert waiting == []
