"""A crowd: questions that differ only in their shard, asked in the same moment, are asked as one.

A request costs far more than a row, and what is due, or listed, is asked of every shard in use.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from duetime.stores.cassandra.session import Row, Session
from duetime.stores.portions import parts

LONGEST = 50  # shards in one request

_Question = tuple[str, tuple[Any, ...]]


class Crowd:
    """Asks each question once for all shards. A statement's first value is a list of shards.

    The first column of its rows is the shard.
    """

    def __init__(self, session: Session, room: asyncio.Semaphore) -> None:
        self._session = session
        self._room = room
        self._asking: dict[_Question, dict[int, asyncio.Future[list[Row]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, statement: str, shard: int, values: Sequence[Any]) -> list[Row]:
        """The rows of one shard, without it."""
        question = (statement, tuple(values))
        loop = asyncio.get_running_loop()
        askers = self._asking.get(question)
        if askers is None:
            askers = self._asking[question] = {}
            loop.call_soon(self._begin, question)
        if shard not in askers:
            askers[shard] = loop.create_future()
            askers[shard].add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(askers[shard])

    async def ask_alone(self, statement: str, shard: int, values: Sequence[Any]) -> list[Row]:
        """The same by a request of its own, that fails for nobody else."""
        async with self._room:
            rows = await self._session.run(statement, ([shard], *values))
        return [tuple(row) for _, *row in rows]

    def _begin(self, question: _Question) -> None:
        askers = list(self._asking.pop(question).items())
        for part in parts(askers, LONGEST):
            task = asyncio.create_task(self._answer(question, dict(part)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(
        self, question: _Question, askers: dict[int, "asyncio.Future[list[Row]]"]
    ) -> None:
        statement, values = question
        try:
            async with self._room:
                rows = await self._session.run(statement, (list(askers), *values))
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            for asked in askers.values():
                asked.set_exception(error)
            return
        parts: dict[int, list[Row]] = {shard: [] for shard in askers}
        for shard, *row in rows:
            parts[shard].append(tuple(row))
        for shard, asked in askers.items():
            asked.set_result(parts[shard])
