"""PostgreSQL servers of the tests: they answer, come back from a crash, and go with their owner."""

import asyncpg
import pytest

from tests.servers.certificates import AUTHORITY
from tests.servers.fixtures import FreshDatabase, OwnPostgres
from tests.servers.kinds import POSTGRES
from tests.servers.postgres import postgres_value


@pytest.mark.parametrize("engine", POSTGRES)
async def test_the_shared_server_answers(engine: str, server_url):
    """It is of the version that its name says."""
    version = await postgres_value(server_url(engine), "select version()")
    assert version.startswith(f"PostgreSQL {engine.removeprefix('postgres-')}.")


@pytest.mark.parametrize("engine", POSTGRES)
async def test_each_test_has_a_schema_of_its_own(engine: str, fresh_database: FreshDatabase):
    """Two schemas are two worlds, and the URL says which."""
    urls = [await fresh_database(engine) for _ in range(2)]
    server, schemas = urls[0].partition("?")[0], [url.partition("?schema=")[2] for url in urls]
    for schema in schemas:
        await postgres_value(server, f"create table {schema}.only_one (n int)")
    assert len(set(schemas)) == 2


@pytest.mark.parametrize("engine", POSTGRES)
async def test_a_wrong_password_is_refused(engine: str, server_url):
    """The password is checked, as on a server that somebody runs."""
    with pytest.raises(asyncpg.InvalidPasswordError):
        await postgres_value(server_url(engine), "select 1", password="wrong")


@pytest.mark.parametrize("engine", POSTGRES)
async def test_what_was_committed_survives_a_crash(engine: str, own_postgres: OwnPostgres):
    """It comes back on the same port after an immediate restart, and after a stop."""
    server = own_postgres(engine)
    await postgres_value(server.url(), "create table kept as select 42 as n")
    server.restart_immediate()
    assert await postgres_value(server.url(), "select n from kept") == 42
    server.stop()
    with pytest.raises(OSError):
        await postgres_value(server.url(), "select 1")
    server.start()
    assert await postgres_value(server.url(), "select n from kept") == 42


@pytest.mark.parametrize("engine", POSTGRES)
async def test_settings(engine: str, own_postgres: OwnPostgres):
    """A test or a benchmark has the settings that it asked for."""
    server = own_postgres(engine, fsync=True, settings={"work_mem": "3MB"})
    assert await postgres_value(server.url(), "show fsync") == "on"
    assert await postgres_value(server.url(), "show work_mem") == "3MB"


async def test_tls(own_postgres: OwnPostgres):
    """A server with TLS proves who it is, and takes nobody without."""
    server = own_postgres("postgres-15", tls=True)
    url = server.url(sslmode="verify-full", sslrootcert=str(AUTHORITY))
    is_encrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()"
    assert await postgres_value(url, is_encrypted) is True
    with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
        await postgres_value(server.url(sslmode="disable"), "select 1")
