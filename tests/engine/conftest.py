"""A whole node without sockets: store, engine and use cases on a clock that stands still."""

import asyncio
from itertools import count
from typing import Any

import msgspec
import pytest

from duetime.engine import Engine
from duetime.ids import ALL_SHARDS
from duetime.layout import Layout
from duetime.requests import CreateTimer
from duetime.service import Service
from duetime.stores import News
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.tenancy.meter import Meter
from duetime.tenancy.rules import Rules
from duetime.testing import FakeClock, FlakyStore, RecordingSender
from duetime.timer import DEFAULT_GROUP, DEFAULT_TENANT, Timer
from tests.waiting import settle

CLAIM_FOR = 10_000
KEYS = map(str, count())  # none of them twice


class DeafStore(FlakyStore):
    """A store whose news get lost."""

    async def announce(self, news: News) -> None:
        self.calls.append("announce")


class Node:
    """One node, whose parts a test moves by hand."""

    def __init__(
        self,
        store: Any,
        clock: FakeClock,
        name: str = "node-1",
        sender: RecordingSender | None = None,
        **options: Any,
    ) -> None:
        self.store = store
        self.clock = clock
        self.sender = sender or RecordingSender()
        options = {"claim_for": CLAIM_FOR, **options}
        self.rules = Rules(store, clock)
        self.meter = Meter(self.rules, store, clock)
        self.engine = Engine(
            name, store, self.sender, clock, rules=self.rules, meter=self.meter, **options
        )
        self.engine.members.shards = ALL_SHARDS  # until its members make a pass
        self.service = Service(
            store, self.sender, clock, engine=self.engine, rules=self.rules, meter=self.meter
        )
        self.service.stories.failures = self.engine.failures

    async def create(self, **fields: Any) -> Timer:
        """Create a timer; by default it is due at once."""
        body = {"delay": "0s", "callback": {"type": "http", "url": "https://a.example/"}} | fields
        request = msgspec.json.decode(msgspec.json.encode(body), type=CreateTimer)
        timer, _ = await self.service.create(OPERATOR, request)
        return timer

    async def get(self, timer: Timer) -> Timer:
        return await self.service.get(OPERATOR, timer.id)

    async def turn(self) -> None:
        """Let every part that moves timers make a pass."""
        await self.engine.reader.step()
        await self.dispatch()
        await self.commit()

    async def dispatch(self) -> None:
        """Start what is due, and let what was started run as far as it can."""
        await self.engine.dispatcher.step()
        await settle()

    async def tell(self) -> None:
        """Tell of what has failed, and was found."""
        await self.engine.dispatcher.step()
        await self.service.stories.step()
        await settle()

    async def commit(self) -> None:
        await self.engine.committer.step()
        await settle()

    @property
    def sent(self) -> list[tuple[str, int]]:
        """What the sender was given: ids and attempt numbers."""
        return [(timer.id, timer.progress.attempt) for timer in self.sender.sent]


async def running(node: Node) -> asyncio.Task[None]:
    """Let a node run with all its loops, until it is stopped."""
    task = asyncio.create_task(node.engine.run())
    await settle()
    return task


async def create_for(owner: Node, creator: Node, **fields: Any) -> Timer:
    """Create a timer on one node that another one looks after."""
    shards = owner.engine.members.shards
    layout = Layout(owner.store.traits.num_shards)
    key = next(
        key for key in KEYS if layout.key_of(DEFAULT_TENANT, DEFAULT_GROUP, key).shard in shards
    )
    return await creator.create(timer_id=key, **fields)


async def join(clock: FakeClock, *nodes: Node) -> None:
    """Let the nodes see each other and share the shards, and read what there is."""
    for _ in range(4):
        clock.advance(500)
        for node in nodes:
            await node.engine.members.step()
    await settle()
    for node in nodes:
        await node.engine.reader.step()


async def watch(clock: FakeClock, node: Node, millis: int) -> None:
    """Let time pass, while a node looks at the others' records twice a second."""
    while millis > 0:
        clock.advance(min(millis, 500))
        await node.engine.members.step()
        millis -= 500


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store() -> FlakyStore:
    return FlakyStore(MemoryStore())


@pytest.fixture
def node(store, clock) -> Node:
    return Node(store, clock)
