"""A relay on a real server, and somebody who reads the stream: nats-py, which we do not use."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from nats.aio.client import Client
from nats.js import api
from nats.js.errors import NotFoundError

from duetime.clock import SystemClock
from duetime.errors import NatsUnavailable
from duetime.events.relay import Relay
from duetime.events.stream import EventStream
from duetime.ids import ALL_SHARDS
from duetime.nats.connection import Connection
from duetime.nats.jetstream import JetStream
from duetime.outbox import Outbox
from duetime.stores import Store
from duetime.stores.memory import MemoryStore
from duetime.testing import FakeClock
from duetime.timer import Event
from tests.events.reading import Read, read_stream
from tests.nats.conftest import connected, own, stranger, subject, url  # noqa: F401 - for tests


class Office:
    """A tenure that a test gives and takes."""

    def __init__(self) -> None:
        self.mine = ALL_SHARDS
        self.is_held = True

    def holds(self) -> bool:
        return self.is_held

    def shards(self):
        return self.mine if self.is_held else ()


class Wiretap:
    """A stream whose waves are noted, and which fails as a test wants it."""

    def __init__(self, stream) -> None:
        self._stream = stream
        self.waves = []
        self.made = 0
        self.failing = None  # "before" it has them, or "after"

    async def make(self):
        self.made += 1
        await self._stream.make()

    async def publish(self, events):
        self.waves.append(list(events))
        error = NatsUnavailable("as told")
        if self.failing == "before":
            return [error] * len(events)
        answers = await self._stream.publish(events)
        return [error] * len(events) if self.failing == "after" else answers


class Post:
    """A relay with all that belongs to it, on a stream of its own."""

    def __init__(self, ours: Connection, theirs: Client, name: str) -> None:
        self.clock = FakeClock()
        self.office = Office()
        self.outbox = Outbox(MemoryStore())
        # NATS is real, and so is its clock.
        self.stream = EventStream(JetStream(ours, SystemClock()), name=name, prefix=name)
        self.tap = Wiretap(self.stream)
        self.relay = Relay(self.outbox, self.tap, self.clock, tenure=self.office)
        self._theirs = theirs
        self.theirs = theirs.jetstream()

    async def read(self) -> list[Read]:
        """All that is in the stream."""
        return await read_stream(self._theirs, self.stream.name)

    async def limit(self, *, is_new: bool = True, **limits: Any) -> None:
        """Make the stream with limits, or change them."""
        config = api.StreamConfig(name=self.stream.name, subjects=[self.stream.subjects], **limits)
        await (self.theirs.add_stream if is_new else self.theirs.update_stream)(config)


@pytest.fixture
async def post(url, connected, stranger, subject) -> AsyncIterator[Post]:  # noqa: F811 - as above
    theirs = await stranger(url)
    post = Post(await connected(url), theirs, subject)
    yield post
    with suppress(NotFoundError):
        await post.theirs.delete_stream(subject)


async def waiting(store: Store) -> list[Event]:
    """What is in the outbox."""
    return await store.events(ALL_SHARDS, None, 100_000)
