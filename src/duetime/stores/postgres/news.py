"""News between nodes, by PostgreSQL's LISTEN and NOTIFY.

A node keeps one connection open to listen on. When it is lost, it is opened again, and whoever
listens is told that he may have missed something.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from duetime.stores import News, listening
from duetime.stores.listening import pieces
from duetime.stores.postgres.address import Address
from duetime.stores.postgres.errors import ENGINE_ERRORS
from duetime.stores.postgres.session import ANSWER_WITHIN, connect

# A payload ends at 8,000 bytes, and a line takes about 80.
_LINES = 80

RECONNECT_EVERY = 1.0
CHECK_EVERY = 10.0

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
    return pieces(news, _LINES)


class Listener(listening.Listener):
    """Listens on the channel of one installation."""

    def __init__(self, address: Address) -> None:
        super().__init__(ENGINE_ERRORS, lambda: RECONNECT_EVERY, self._listen)
        self._address = address
        self._channel = channel_of(address.schema)

    async def _listen(self) -> None:
        connection = await connect(self._address)
        is_lost = asyncio.Event()
        connection.add_termination_listener(lambda _: is_lost.set())
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                await connection.add_listener(self._channel, self._on_notice)
            self.tell(News(is_about_nodes=True))
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_lost.wait(), CHECK_EVERY)
                # A line that was cut somewhere else is silent, like one on which nothing happens.
                async with asyncio.timeout(ANSWER_WITHIN):
                    await connection.execute("SELECT 1")
        finally:
            connection.terminate()

    def _on_notice(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        self.tell_text(str(payload))
