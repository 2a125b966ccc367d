"""Statements: how often a database is asked for something, for 1,000 timers.

On a clock that stands still that is the same every time. On SQLite each statement is counted, also
those that begin and end a transaction; on PostgreSQL each is a round trip, and a transaction too,
but for those around a copy.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from duetime.stores.postgres import pool, session
from duetime.stores.postgres.address import Address
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.sqlite.store import SqliteStore
from tests.guard.sealed_node import SealedNode, body, sealed
from tests.servers.kinds import POSTGRES

COUNT = 1_000


class Listener:
    """Hears every statement while it listens, and keeps count by their first words."""

    def __init__(self) -> None:
        self._asked: Counter[str] | None = None

    @contextmanager
    def listening(self) -> Iterator[Counter[str]]:
        asked = self._asked = Counter()
        yield asked
        self._asked = None

    def hear(self, statement: str) -> None:
        if self._asked is not None:
            self._asked[statement.split(None, 1)[0].upper()] += 1


@asynccontextmanager
async def on_sqlite(folder: Path, listener: Listener) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(folder / "duetime.db", synchronous="off")
    await store.migrate()
    readers = [store._readers.get() for _ in range(store._readers.qsize())]
    for connection in (store._open_writer._connection, *readers):
        connection.set_trace_callback(listener.hear)
    for reader in readers:
        store._readers.put(reader)
    yield store
    await store.close()


@asynccontextmanager
async def on_postgres(
    url: str, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresStore]:
    async def connect(address: Address) -> Any:
        connection = await session.connect(address)
        connection.add_query_logger(lambda record: listener.hear(record.query))
        return connection

    monkeypatch.setattr(pool, "connect", connect)
    store = PostgresStore(Address.parse(url))
    await store.migrate()
    yield store
    await store.close()


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture(params=["sqlite", *POSTGRES])
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def node(
    engine: str,
    tmp_path: Path,
    fresh_database: Any,
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[SealedNode]:
    if engine == "sqlite":
        opening: Any = on_sqlite(tmp_path, listener)
    else:
        opening = on_postgres(await fresh_database(engine), listener, monkeypatch)
    async with opening as store, sealed(store) as node:
        await node.create(1)  # which makes the group
        await node.service.audit.close()
        yield node


# The most that is asked for all of them, and how many of these may be commits.
#
# Created: SQLite takes 512 rows in a statement, so there are two for the timers and four for their
# two tags each, between a BEGIN and a COMMIT. PostgreSQL takes them by COPY, table by table, which
# the driver does not tell of, between the same two.
CREATED = {"sqlite": (8, 1), "postgres": (2, 1)}
# Fired over HTTP: with 128 places for one receiver, claims grow up to 250 timers and are six; then
# the outcomes, of which up to 1,000 share a write. On SQLite, these are two statements for the
# rows and two for the attempts.
FIRED = {"sqlite": (24, 7), "postgres": (7, 0)}
# Posted: no place is waited for, so claims are of 250, 500 and 250.
POSTED = {"sqlite": (15, 4), "postgres": (4, 0)}


def check(engine: str, asked: Counter[str], most: dict[str, tuple[int, int]]) -> None:
    statements, commits = most[engine.partition("-")[0]]
    assert 0 < asked.total() <= statements, asked
    assert asked["COMMIT"] <= commits, asked


async def test_a_batch_is_created_in_one_transaction(node, engine, listener):
    """A thousand timers in one request are one write."""
    with listener.listening() as asked:
        await node.create(COUNT)
    check(engine, asked, CREATED)


async def test_timers_created_one_by_one_at_once_share_a_transaction(node, engine, listener):
    """A thousand requests that come in together are one write as well."""
    with listener.listening() as asked:
        await asyncio.gather(*(node.post("/timers", body()) for _ in range(COUNT)))
    check(engine, asked, CREATED)


@pytest.mark.parametrize(
    ("callback", "most"), [("http", FIRED), ("nats", POSTED)], ids=["http", "nats"]
)
async def test_a_burst_is_claimed_and_ended_in_few_transactions(
    node, engine, listener, callback, most
):
    """A thousand timers that are due at one instant share the writes of claims and outcomes."""
    await node.become_due(COUNT, callback)
    with listener.listening() as asked:
        await node.fire(COUNT)
    check(engine, asked, most)
