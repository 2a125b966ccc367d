"""Listening: what other nodes announce reaches those who hear, as well as that can be had.

Who listens loses his line now and then. Then he listens again, and the engine's own way to listen
begins by saying that something may have been missed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TypeAlias

import msgspec

from duetime.errors import StoreUnavailable
from duetime.stores import News
from duetime.stores.portions import parts

# Listens until the line is lost, and raises then.
Listen: TypeAlias = Callable[[], Awaitable[None]]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(News).decode


def pieces(news: News, longest: int) -> Iterator[str]:
    """News as texts of so many lines at most."""
    for part in parts(news.waking, longest):
        yield _encode(News(tuple(part))).decode()
    if news.is_about_nodes or news.is_about_rules:
        about = News((), news.is_about_nodes, news.is_about_rules)
        yield _encode(about).decode()


class Listener:
    """Passes on what is heard. It listens once somebody wants to hear and there is a way to."""

    def __init__(
        self, errors: tuple[type[Exception], ...], pause: Callable[[], float], listen: Listen | None
    ) -> None:
        """``errors`` are the engine's own, after which it listens again, so many seconds later."""
        self._errors = errors
        self._pause = pause
        self._way = listen
        self._hearers: list[Callable[[News], None]] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, hear: Callable[[News], None]) -> None:
        """Call this one too."""
        self._hearers.append(hear)
        self._begin()

    def listen_by(self, listen: Listen) -> None:
        """Say how to listen, where that was not known from the beginning."""
        self._way = listen
        self._begin()

    def tell(self, news: News) -> None:
        """Pass news on."""
        for hear in self._hearers:
            hear(news)

    def tell_text(self, text: str) -> None:
        """Pass on what came as one of the ``pieces``."""
        with suppress(msgspec.MsgspecError):  # another version's: what it meant, a poll will find
            self.tell(_decode(text))

    async def close(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _begin(self) -> None:
        if self._hearers and self._way is not None and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._listen_on(self._way))

    async def _listen_on(self, listen: Listen) -> None:
        while True:
            with suppress(StoreUnavailable, *self._errors):
                await listen()
            await asyncio.sleep(self._pause())
