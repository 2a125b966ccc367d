"""News between nodes, by a small collection whose end every node reads along.

The oldest news make room for new ones. A node waits at the end of the collection on a connection of
its own; when that is lost, it is opened again, and whoever listens is told that he may have missed
something. A change stream would do the same, but a server finds its way through a stream by looking
at every write there is, of timers too, once for each node that listens.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec
from pymongo import CursorType, WriteConcern
from pymongo.read_concern import ReadConcern

from duetime.errors import StoreUnavailable
from duetime.stores import News
from duetime.stores.mongodb.connection import Collection, Database, Document
from duetime.stores.mongodb.errors import translated

_LINES = 1_000  # in one document

# Seconds. The server says something at least so often; who is silent for longer is gone.
SPEAK_EVERY = 5.0
SILENT_FOR = 10.0
RECONNECT_EVERY = 1.0

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(News).decode


def news_of(database: Database) -> Collection:
    """Where the news are. Nobody waits for a disk: the news of a server that crashes are old."""
    return database["news"].with_options(
        write_concern=WriteConcern(1), read_concern=ReadConcern("local")
    )


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
        async with asyncio.timeout(SILENT_FOR):
            mark = (await collection.insert_one({})).inserted_id
        is_old = True  # until the mark is found
        async with collection.find(cursor_type=CursorType.TAILABLE_AWAIT) as cursor:
            cursor.max_await_time_ms(int(SPEAK_EVERY * 1000))
            while cursor.alive:
                try:
                    async with asyncio.timeout(SILENT_FOR):
                        document = await anext(cursor)
                except StopAsyncIteration:  # nothing new for a while
                    if is_old:  # the mark was lost, or pushed out: all that is old has been read
                        is_old = False
                        self._tell(News(is_about_nodes=True))
                    continue
                if not is_old:
                    self._on_news(document)
                elif document["_id"] == mark:
                    is_old = False
                    self._tell(News(is_about_nodes=True))

    def _on_news(self, document: Document) -> None:
        if body := document.get("body"):  # else it is another node's mark
            # What another version says and we do not understand, a poll will find.
            with suppress(msgspec.MsgspecError):
                self._tell(_decode(body))

    def _tell(self, news: News) -> None:
        for hear in self._hearers:
            hear(news)
