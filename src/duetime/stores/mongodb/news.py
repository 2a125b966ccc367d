"""News between nodes, by a change stream.

News are documents of a small collection, in which the oldest make room. A node watches it on one
connection. When that is lost, it is opened again, and whoever listens is told that he may have
missed something.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from duetime.errors import StoreUnavailable
from duetime.stores import News
from duetime.stores.mongodb.connection import Collection, Document
from duetime.stores.mongodb.errors import translated

_LINES = 1_000  # in one document

# Seconds. The server says something at least so often; who is silent for longer is gone.
SPEAK_EVERY = 5.0
SILENT_FOR = 10.0
RECONNECT_EVERY = 1.0

_PIPELINE = [{"$match": {"operationType": "insert"}}]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(News).decode


def documents(news: News) -> Iterator[Document]:
    """News as they are passed on."""
    for start in range(0, len(news.waking), _LINES):
        yield {"body": _encode(News(news.waking[start : start + _LINES])).decode()}
    if news.is_about_nodes:
        yield {"body": _encode(News(is_about_nodes=True)).decode()}


class Listener:
    """Hears what any node announces, as well as that can be had."""

    def __init__(self) -> None:
        self._collection: Collection | None = None
        self._hearers: list[Callable[[News], None]] = []
        self._task: asyncio.Task[None] | None = None

    def open(self, collection: Collection) -> None:
        """Say where the news are."""
        self._collection = collection
        self._begin()

    def add(self, hear: Callable[[News], None]) -> None:
        """Call this one too."""
        self._hearers.append(hear)
        self._begin()

    def _begin(self) -> None:
        if self._hearers and self._collection is not None and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._listen_on(self._collection))

    async def close(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _listen_on(self, collection: Collection) -> None:
        while True:
            with suppress(StoreUnavailable), translated():
                await self._listen(collection)
            await asyncio.sleep(RECONNECT_EVERY)

    async def _listen(self, collection: Collection) -> None:
        waiting = int(SPEAK_EVERY * 1000)
        async with asyncio.timeout(SILENT_FOR):
            stream = await collection.watch(_PIPELINE, max_await_time_ms=waiting)
        async with stream:
            self._tell(News(is_about_nodes=True))
            while stream.alive:
                async with asyncio.timeout(SILENT_FOR):
                    change = await stream.try_next()
                if change is not None:
                    self._on_change(change)

    def _on_change(self, change: Any) -> None:
        with suppress(msgspec.MsgspecError):  # another version's: what it meant, a poll will find
            self._tell(_decode(change["fullDocument"]["body"]))

    def _tell(self, news: News) -> None:
        for hear in self._hearers:
            hear(news)
