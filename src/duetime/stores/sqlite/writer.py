"""The writer: one thread through which everything is written, many calls to a commit.

A commit that survives power loss costs an fsync, far more than what it writes. So whatever has
queued up while the writer was busy shares the next transaction, and nobody is answered before it
is committed. Calls next to each other that do the same work share its statements as well.

A call that fails must not fail those it shares a transaction with. Savepoints would see to that
at the price of two more statements for each call; instead, the rare transaction in which a call
fails is rolled back, and each of its calls then has one of its own.
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from itertools import chain, groupby, islice
from typing import Any, NamedTuple, TypeAlias

from duetime.stores.sqlite.file import translate

Work: TypeAlias = Callable[[sqlite3.Connection], Any]
BatchWork: TypeAlias = Callable[[sqlite3.Connection, Sequence[Any]], list[Any]]

MAX_SHARING = 256  # calls in a transaction


class _Call(NamedTuple):
    work: BatchWork
    batch: Sequence[Any]
    answer: asyncio.Future[Any]


class _Settled(NamedTuple):
    call: _Call
    result: Any
    error: Exception | None


class Writer:
    """Runs calls on its connection, in the order given, each wholly or not at all."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._ended = self._loop.create_future()
        threading.Thread(target=self._run, name="duetime-sqlite-writer", daemon=True).start()

    async def write(self, work: Work) -> Any:
        """Do the work in a transaction; return once it is committed."""
        (answer,) = await self.write_batch(lambda connection, _: [work(connection)], [None])
        return answer

    async def write_batch(self, work: BatchWork, batch: Sequence[Any]) -> list[Any]:
        """Do the work on all of a batch, likewise, and answer for each."""
        answer = self._loop.create_future()
        self._queue.put(_Call(work, batch, answer))
        answers: list[Any] = await answer
        return answers

    async def close(self) -> None:
        """End the thread and its connection, after all that was queued before."""
        self._queue.put(None)
        await asyncio.shield(self._ended)

    def _run(self) -> None:
        is_open = True
        while is_open:
            calls, is_open = self._take()
            settled = self._settle(calls)
            self._in_loop(_answer, settled)
        self._connection.close()
        self._in_loop(_end, self._ended)

    def _take(self) -> tuple[list[_Call], bool]:
        """Wait for a call, and take with it all that queued up; tell whether to go on."""
        calls: list[_Call] = []
        first = self._queue.get()
        while first is not None:
            calls.append(first)
            if len(calls) == MAX_SHARING or self._queue.empty():
                return calls, True
            first = self._queue.get()
        return calls, False

    def _settle(self, calls: list[_Call]) -> list[_Settled]:
        if not calls:
            return []
        is_working = False
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            is_working = True
            results = self._work(calls)
            is_working = False
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - it belongs to whoever asked
            self._roll_back()
            if is_working and len(calls) > 1:
                return [settled for call in calls for settled in self._settle([call])]
            return [_Settled(call, None, translate(error)) for call in calls]
        return [_Settled(call, result, None) for call, result in zip(calls, results, strict=True)]

    def _work(self, calls: list[_Call]) -> list[list[Any]]:
        """Do the work of all calls; of those next to each other with the same work, in one go."""
        results: list[list[Any]] = []
        for work, alike in groupby(calls, lambda call: call.work):
            batches = [call.batch for call in alike]
            answers = iter(work(self._connection, list(chain.from_iterable(batches))))
            results += [list(islice(answers, len(batch))) for batch in batches]
        return results

    def _roll_back(self) -> None:
        # Where SQLite cannot reach its file any more, the next BEGIN says so to whoever comes next.
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _in_loop(self, callback: Callable[[Any], None], argument: Any) -> None:
        """One wake-up of the event loop for a whole transaction."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(callback, argument)


def _answer(settled: list[_Settled]) -> None:
    for call, result, error in settled:
        if call.answer.done():
            continue  # the caller was cancelled meanwhile
        if error is not None:
            call.answer.set_exception(error)
        else:
            call.answer.set_result(result)


def _end(ended: asyncio.Future[None]) -> None:
    ended.set_result(None)
