"""The schema in PostgreSQL: made once, by one; shared by two versions; kept apart from others."""

import asyncio
import secrets

import asyncpg
import pytest

from duetime import ids, model
from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores import Change, Insert, News, Query, Record, Waking
from duetime.stores.postgres import store as store_module
from duetime.stores.postgres.address import Address
from duetime.stores.postgres.reads import Reads
from duetime.stores.postgres.schema import migrate
from duetime.stores.postgres.store import PostgresStore
from duetime.stores.postgres.writes import Writes
from duetime.stores.schema import Migration, migrations
from duetime.timer import Status
from tests.factories import (
    NOW,
    claim_of,
    claimed,
    completed,
    insert,
    make_attempt,
    make_spec,
    make_timer,
    with_spec,
)
from tests.stores.conftest import somebody

KNOWN = migrations("postgres")
LAST = KNOWN[-1].number


def opened(url):
    """A store that is not yet migrated."""
    return PostgresStore(Address.parse(url))


def schema_of(url):
    return Address.parse(url).schema


async def test_ten_that_start_at_once_make_one_schema(postgres_url, session):
    """On an empty database: all come up, and each step was made once."""
    stores = [opened(postgres_url) for _ in range(10)]
    await asyncio.gather(*(store.migrate() for store in stores))
    timer = make_timer()
    await insert(stores[0], timer)
    assert [await store.get([timer.id]) for store in stores] == [[timer]] * 10
    await asyncio.gather(*(store.close() for store in stores))
    history = await session.fetch("SELECT number, name, oldest FROM schema_history ORDER BY 1")
    assert [tuple(row) for row in history] == [
        (step.number, step.name, step.oldest) for step in KNOWN
    ]


async def test_ten_that_start_at_once_make_the_schema_too(postgres_url, session):
    """Not even the schema needs to be there."""
    await session.execute(f"DROP SCHEMA {schema_of(postgres_url)}")
    stores = [opened(postgres_url) for _ in range(10)]
    await asyncio.gather(*(store.migrate() for store in stores))
    await asyncio.gather(*(store.ping() for store in stores))
    await asyncio.gather(*(store.close() for store in stores))


@pytest.fixture
async def clerk_url(postgres_url, session):
    """The URL for a user of the database who may do nothing yet."""
    name, password = f"clerk_{secrets.token_hex(4)}", secrets.token_hex(8)
    await session.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
    scheme, _, rest = postgres_url.partition("://")
    yield f"{scheme}://{name}:{password}@{rest.partition('@')[2]}", name
    await session.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


async def test_an_up_to_date_schema_needs_no_right_to_change_it(
    postgres, postgres_url, session, clerk_url
):
    """Whoever runs the nodes need not own the tables."""
    url, clerk = clerk_url
    schema = schema_of(postgres_url)
    await session.execute(f"GRANT USAGE ON SCHEMA {schema} TO {clerk}")
    await session.execute(
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {clerk}"
    )
    store = opened(url)
    await store.migrate()
    timer = make_timer()
    await insert(store, timer)
    assert await store.apply([claim_of(timer)]) == [True]
    await store.announce(News(is_about_nodes=True))
    await store.close()


async def test_a_schema_that_may_not_be_made_is_asked_for(session, postgres_url, clerk_url):
    """The message has the line that an administrator needs."""
    url, _ = clerk_url
    await session.execute(f"DROP SCHEMA {schema_of(postgres_url)}")
    store = opened(url)
    with pytest.raises(ConfigurationError, match=f"CREATE SCHEMA {schema_of(url)} AUTHORIZATION"):
        await store.migrate()
    await store.close()
    await session.execute(f"CREATE SCHEMA {schema_of(postgres_url)}")


async def test_tables_that_may_not_be_made_are_asked_for(session, postgres_url, clerk_url):
    """Likewise where the schema is there, but somebody else's."""
    url, clerk = clerk_url
    for right in ("", "USAGE"):
        if right:
            await session.execute(f"GRANT {right} ON SCHEMA {schema_of(url)} TO {clerk}")
        store = opened(url)
        with pytest.raises(ConfigurationError, match=r"may not .*GRANT"):
            await store.migrate()
        await store.close()


async def test_tables_that_may_not_be_read_are_asked_for(
    postgres, session, postgres_url, clerk_url
):
    """A user without any right on the tables of an installation is told so."""
    url, _ = clerk_url
    store = opened(url)
    with pytest.raises(ConfigurationError, match=r"may not .*GRANT"):
        await store.migrate()
    await store.close()


async def test_timers_from_before_they_had_a_retention_go_on(postgres_url, session):
    """Finished ones are dropped as usual, and whoever is given one by then is kept by it."""
    await migrate(session, schema_of(postgres_url), KNOWN[:1])
    finished = make_timer(status=Status.COMPLETED, wake_at=None)
    pending = make_timer()
    old = Writes(schema_of(postgres_url), Reads(schema_of(postgres_url)))
    assert await old.insert(session, [Insert(finished), Insert(pending)]) == [None, None]
    store = opened(postgres_url)
    await store.migrate()
    assert await store.get([finished.id, pending.id]) == [finished, pending]
    kept = with_spec(pending, retention=5_000)
    assert await store.apply([Change(pending, kept)]) == [True]
    assert await store.apply([Change(kept, model.cancel(kept, NOW))]) == [True]
    assert await store.purge(ids.ALL_SHARDS, NOW + 1, 10) == 1
    assert await store.drop_outlived(ids.ALL_SHARDS, NOW + 5_000, 10) == 1
    await store.close()


# Two versions side by side ------------------------------------------------------------------


async def test_what_an_old_program_began_anew_is_not_dropped(postgres, session):
    """It knows nothing of the time at which the timer that had finished was to be dropped."""
    timer = make_timer(status=Status.FAILED, wake_at=None, spec=make_spec(retention=5))
    await insert(postgres, timer)
    await session.execute("UPDATE states SET status = 'pending', version = version + 1")
    assert await postgres.drop_outlived(ids.ALL_SHARDS, NOW + 5, 10) == 0
    assert (await postgres.get([timer.id])) != [None]


def adding(oldest):
    """The next step of the schema, which only adds."""
    script = "ALTER TABLE timers ADD COLUMN colour TEXT; CREATE INDEX ON states (weight)"
    return Migration(LAST + 1, "colours", script, oldest)


async def test_an_old_program_lives_with_what_was_only_added(postgres, postgres_url, session):
    """It goes on where it runs, and starts again where it was stopped."""
    timer = make_timer()
    await insert(postgres, timer)
    await migrate(session, schema_of(postgres_url), [*KNOWN, adding(LAST)])
    assert await postgres.get([timer.id]) == [timer]
    assert await postgres.apply([claim_of(timer)]) == [True]
    again = opened(postgres_url)
    await again.migrate()
    await insert(again, make_timer())
    await again.close()


async def test_an_old_program_is_refused_where_it_cannot_live(postgres, postgres_url, session):
    """The message names both numbers, and what to do."""
    await migrate(session, schema_of(postgres_url), [*KNOWN, adding(LAST + 1)])
    again = opened(postgres_url)
    with pytest.raises(
        ConfigurationError,
        match=rf"newer Duetime .*number {LAST + 1}.*knows {LAST}\): upgrade Duetime",
    ):
        await again.migrate()
    await again.close()


async def test_what_a_step_allowed_a_later_one_may_forbid(postgres, postgres_url, session):
    """The strictest of all steps counts, not the newest."""
    schema = schema_of(postgres_url)
    strict = adding(LAST + 1)
    lax = Migration(LAST + 2, "more", "CREATE TABLE more (n INTEGER)", LAST)
    await migrate(session, schema, [*KNOWN, strict, lax])
    again = opened(postgres_url)
    with pytest.raises(ConfigurationError, match="upgrade Duetime"):
        await again.migrate()
    await again.close()


async def test_work_goes_on_while_the_schema_changes(postgres, postgres_url):
    """Nodes of the old version insert, claim and finish all the while, and nothing fails."""
    is_done = asyncio.Event()

    async def work():
        rounds = 0
        while not is_done.is_set() or rounds < 5:
            timer = make_timer()
            await insert(postgres, timer)
            assert await postgres.apply([claim_of(timer)]) == [True]
            end = Change(claimed(timer), completed(timer), make_attempt(claimed(timer)))
            assert await postgres.apply([end]) == [True]
            assert await postgres.get([timer.id]) == [completed(timer)]
            rounds += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(work())
        async with somebody(postgres_url) as session:
            for number in range(1, 4):
                steps = [
                    Migration(
                        LAST + step,
                        f"step {step}",
                        f"ALTER TABLE timers ADD COLUMN new_{step} TEXT; "
                        f"ALTER TABLE states ADD COLUMN new_{step} BIGINT NOT NULL DEFAULT 0",
                        LAST,
                    )
                    for step in range(1, number + 1)
                ]
                await migrate(session, schema_of(postgres_url), [*KNOWN, *steps])
        is_done.set()


async def test_a_failing_step_changes_nothing(postgres_url, session):
    """A step is made whole or not at all, and so are those before it."""
    broken = Migration(LAST + 1, "broken", "CREATE TABLE a (b INT); CREATE TABLE a (b INT)")
    with pytest.raises(asyncpg.DuplicateTableError):
        await migrate(session, schema_of(postgres_url), [*KNOWN, broken])
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
    assert await session.fetchval(tables) == 0
    await migrate(session, schema_of(postgres_url), KNOWN)
    assert await session.fetchval(tables) > 0


async def test_a_store_whose_step_fails_says_so(postgres_url, monkeypatch):
    """The driver's error does not get out, and the store stays shut."""
    broken = Migration(LAST + 1, "broken", "SELECT 1 / 0")
    monkeypatch.setattr(store_module, "migrations", lambda engine: [*KNOWN, broken])
    store = opened(postgres_url)
    with pytest.raises(StoreUnavailable, match="division by zero"):
        await store.migrate()
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.ping()
    await store.close()


# Two installations --------------------------------------------------------------------------


@pytest.fixture
async def neighbours(request, fresh_database):
    """Two stores in one database, each in its own schema."""
    urls = [await fresh_database("postgres-18") for _ in range(2)]
    stores = [opened(url) for url in urls]
    for store in stores:
        await store.migrate()
    yield stores
    for store in stores:
        await store.close()


async def test_two_installations_do_not_see_each_other(neighbours):
    """Neither the timers nor the records nor the news of the other."""
    ours, theirs = neighbours
    heard = {store: asyncio.Queue() for store in neighbours}
    for store in neighbours:
        store.listen(heard[store].put_nowait)
        async with asyncio.timeout(30):
            await heard[store].get()
    timer = make_timer(timer_id="same")
    await insert(ours, timer)
    await insert(theirs, make_timer(timer_id="same"))
    assert await theirs.get([timer.id]) == [None]
    assert len((await theirs.search(Query(tenant=timer.tenant))).timers) == 1
    assert len(await theirs.due(ids.ALL_SHARDS, None, NOW * 2, 10)) == 1
    assert await ours.put_record(None, Record(kind="node", name="a"))
    assert await theirs.records("node") == []
    news = [News((Waking.of(make_timer()),)) for _ in neighbours]
    for store, each in zip(neighbours, news, strict=True):
        await store.announce(each)
    async with asyncio.timeout(30):
        assert [await heard[store].get() for store in neighbours] == news
    assert all(queue.empty() for queue in heard.values())
