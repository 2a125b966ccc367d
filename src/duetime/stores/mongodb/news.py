"""News between nodes, by a small collection whose end every node reads along.

The oldest news make room for new ones. A node waits at the end of the collection on a connection of
its own; when that is lost, it is opened again, and whoever listens is told that he may have missed
something. A change stream would do the same, but a server finds its way through a stream by looking
at every write there is, of timers too, once for each node that listens.
"""

import asyncio
from collections.abc import Iterator
from functools import partial

from pymongo import CursorType, WriteConcern
from pymongo.read_concern import ReadConcern

from duetime.stores import News, listening
from duetime.stores.listening import pieces
from duetime.stores.mongodb.connection import Collection, Database, Document
from duetime.stores.mongodb.errors import ENGINE_ERRORS
from duetime.stores.mongodb.lane import Lane

_LINES = 1_000  # in one document

# Seconds. The server says something at least so often; who is silent for longer is gone.
SPEAK_EVERY = 5.0
SILENT_FOR = 10.0
RECONNECT_EVERY = 1.0


def news_of(database: Database) -> Collection:
    """Where the news are. Nobody waits for a disk: the news of a server that crashes are old."""
    return database["news"].with_options(
        write_concern=WriteConcern(1), read_concern=ReadConcern("local")
    )


def documents(news: News) -> Iterator[Document]:
    """News as they are passed on."""
    for text in pieces(news, _LINES):
        yield {"body": text}


class Listener(listening.Listener):
    """Listens at the end of the collection, once it is known."""

    def __init__(self) -> None:
        super().__init__(ENGINE_ERRORS, lambda: RECONNECT_EVERY, None)
        self._lane = Lane(1, SILENT_FOR)

    def open(self, collection: Collection) -> None:
        """Say where the news are."""
        self.listen_by(partial(self._listen, collection))

    async def close(self) -> None:
        await super().close()
        await self._lane.close()

    async def _listen(self, collection: Collection) -> None:
        mark = (await self._lane.run(lambda: collection.insert_one({}))).inserted_id
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
                        self.tell(News(is_about_nodes=True))
                    continue
                if not is_old:
                    self._on_news(document)
                elif document["_id"] == mark:
                    is_old = False
                    self.tell(News(is_about_nodes=True))

    def _on_news(self, document: Document) -> None:
        if body := document.get("body"):  # else it is another node's mark
            self.tell_text(body)
