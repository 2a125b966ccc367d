"""Databases to measure on: fresh, filled as the store would fill them, and gone afterwards."""

import sqlite3
from contextlib import closing, suppress

import pytest

from bench.bare import timers_per_second
from bench.databases.mongodb import MongodbDatabases
from bench.databases.postgres import WAYS, PostgresSchemas
from bench.databases.sqlite import SqliteFiles
from duetime.stores import Query
from duetime.stores.opening import open_store
from duetime.stores.postgres.address import Address
from duetime.timer import Status
from tests.servers.postgres import postgres_value

KINDS = ("sqlite", "postgres-18", "mongodb")


@pytest.fixture(params=KINDS)
def databases(request, tmp_path, server_url):
    if request.param == "sqlite":
        return SqliteFiles(tmp_path)
    if request.param == "mongodb":
        return MongodbDatabases(server_url(request.param))
    return PostgresSchemas(server_url(request.param))


async def test_a_filled_database_holds_timers_as_the_store_reads_them(databases):
    """What is filled in is found by the store, far from due, each in its shard."""
    async with databases.fresh() as database:
        seen = []
        await database.fill(250, seen.append)
        store = open_store(database.url)
        await store.migrate()
        page = await store.search(Query(tenant="default", limit=100, with_total=True))
        await store.close()
        assert seen[-1] == 250
        assert page.total == 250
        assert all(timer.wake_at == timer.execute_at > timer.created_at for timer in page.timers)


async def test_filling_leaves_the_indexes_as_the_store_made_them(tmp_path, server_url):
    """They are dropped and made again meanwhile; what is measured afterwards has the same."""
    url = server_url("postgres-18")
    sqlite, postgres = SqliteFiles(tmp_path), PostgresSchemas(url)
    async with sqlite.fresh() as empty, sqlite.fresh() as full:
        await empty.fill(0, lambda _: None)
        await full.fill(100, lambda _: None)
        assert _sqlite_indexes(full) == _sqlite_indexes(empty)
        assert len(_sqlite_indexes(full)) > 5
    async with postgres.fresh() as database:
        before = await _postgres_indexes(url, database)
        await database.fill(100, lambda _: None)
        assert await _postgres_indexes(url, database) == before
        assert len(before) > 5


def _sqlite_indexes(database):
    with closing(sqlite3.connect(database.url.removeprefix("sqlite:///"))) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        found = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'index'")
        return set(found)


async def _postgres_indexes(url, database):
    schema = Address.parse(database.url).schema
    all_of_them = "SELECT array_agg(indexdef ORDER BY indexdef) FROM pg_indexes"
    return await postgres_value(url, f"{all_of_them} WHERE schemaname = '{schema}'")


async def test_timers_are_counted_by_status(databases):
    """All of them, or those of the statuses that are named."""
    async with databases.fresh() as database:
        await database.fill(30, lambda _: None)
        assert await database.count() == 30
        assert await database.count(Status.PENDING, Status.FAILED) == 30
        assert await database.count(Status.COMPLETED) == 0


async def test_two_fresh_databases_do_not_share_timers(databases):
    """Each workload has a database of its own."""
    async with databases.fresh() as full, databases.fresh() as empty:
        await full.fill(30, lambda _: None)
        await empty.fill(0, lambda _: None)
        assert await empty.count() == 0


async def test_a_database_with_more_in_it_takes_more_room(databases):
    """The extent grows with what is stored."""
    async with databases.fresh() as database:
        await database.fill(10, lambda _: None)
        before = await database.extent()
        await database.fill(5_000, lambda _: None)
        assert (await database.extent()).table_mb > 5 * before.table_mb


async def test_the_bare_driver_stores_all_its_rows_in_each_way(databases):
    """A ceiling is one only if it does the same work."""
    for way in databases.bare_ways:
        async with databases.fresh() as database:
            assert await timers_per_second(databases.kind, way, database.url, 25, 10) > 0
            assert await database.count(Status.PENDING) == 25


def test_every_way_of_the_bare_driver_is_measured():
    """None is written and forgotten."""
    assert len(PostgresSchemas.bare_ways) == len(WAYS)


async def test_a_schema_is_dropped_whatever_happens(server_url):
    """Nothing is left on a server that somebody else runs, and their schema is not touched."""
    url = server_url("postgres-18")
    with suppress(KeyboardInterrupt):
        async with PostgresSchemas(f"{url}?schema=theirs").fresh() as database:
            schema = Address.parse(database.url).schema
            raise KeyboardInterrupt
    assert schema.startswith("bench_")
    assert await postgres_value(url, f"select to_regnamespace('{schema}')") is None
    assert await postgres_value(url, "select to_regnamespace('theirs')") is None


async def test_the_description_says_what_makes_figures_comparable(databases):
    """The engine's version, and how it waits for the disk."""
    told = " ".join((await databases.describe()).values())
    assert "synchronous" in told
    assert "://" not in told
