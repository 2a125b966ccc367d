"""News between nodes, by PostgreSQL's LISTEN and NOTIFY.

A node keeps one connection open to listen on. When it is lost, it is opened again, and whoever
listens is told that he may have missed something.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from duetime.errors import StoreUnavailable
from duetime.stores import News
from duetime.stores.postgres.address import Address
from duetime.stores.postgres.errors import translated
from duetime.stores.postgres.session import ANSWER_WITHIN, connect

# A payload ends at 8,000 bytes, and a line takes about 80.
_LINES = 80

RECONNECT_EVERY = 1.0
CHECK_EVERY = 10.0

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(News).decode

# Nobody waits for this commit to be on disk: the news of a server that crashes are old.
ANNOUNCING = (
    "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, payload) "
    "FROM unnest($2::text[]) AS payload"
)


def channel_of(schema: str) -> str:
    """The channel that the nodes of one installation talk on."""
    return f"duetime_{schema}"


def payloads(news: News) -> Iterator[str]:
    """News in pieces that PostgreSQL takes."""
    for start in range(0, len(news.waking), _LINES):
        yield _encode(News(news.waking[start : start + _LINES])).decode()
    if news.is_about_nodes:
        yield _encode(News(is_about_nodes=True)).decode()


class Listener:
    """Hears what any node announces, as well as that can be had."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._channel = channel_of(address.schema)
        self._hearers: list[Callable[[News], None]] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, hear: Callable[[News], None]) -> None:
        """Call this one too."""
        self._hearers.append(hear)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._listen_on())

    async def close(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _listen_on(self) -> None:
        while True:
            with suppress(StoreUnavailable), translated():
                await self._listen()
            await asyncio.sleep(RECONNECT_EVERY)

    async def _listen(self) -> None:
        connection = await connect(self._address)
        is_lost = asyncio.Event()
        connection.add_termination_listener(lambda _: is_lost.set())
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                await connection.add_listener(self._channel, self._on_notice)
            self._tell(News(is_about_nodes=True))
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_lost.wait(), CHECK_EVERY)
                # A line that was cut somewhere else is silent, like one on which nothing happens.
                async with asyncio.timeout(ANSWER_WITHIN):
                    await connection.execute("SELECT 1")
        finally:
            connection.terminate()

    def _on_notice(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        with suppress(msgspec.MsgspecError):  # another version's: what it meant, a poll will find
            self._tell(_decode(str(payload)))

    def _tell(self, news: News) -> None:
        for hear in self._hearers:
            hear(news)
