"""MariaDB and MySQL servers of the tests: they answer, and come back from a crash and a pause."""

import asyncio
import ssl
from urllib.parse import urlsplit

import asyncmy
import pytest

from tests.servers.certificates import AUTHORITY
from tests.servers.fixtures import FreshDatabase, OwnServer
from tests.servers.kinds import MYSQL
from tests.servers.mysql import mysql_value, rows, session


@pytest.mark.parametrize("engine", MYSQL)
async def test_the_shared_server_answers(engine: str, server_url):
    """It is of the kind that its name says."""
    version = await mysql_value(server_url(engine), "SELECT version()")
    assert ("MariaDB" in version) == (engine == "mariadb")
    assert version.startswith("10." if engine == "mariadb" else ("8.", "9."))


@pytest.mark.parametrize("engine", MYSQL)
async def test_each_test_has_a_database_of_its_own(engine: str, fresh_database: FreshDatabase):
    """Two databases are two worlds, and the URL says which."""
    urls = [await fresh_database(engine) for _ in range(2)]
    for url in urls:
        await mysql_value(url, "CREATE TABLE only_one (n int)")
    assert len({urlsplit(url).path for url in urls}) == 2


@pytest.mark.parametrize("engine", MYSQL)
async def test_a_wrong_password_is_refused(engine: str, server_url):
    """The password is checked, as on a server that somebody runs; and root has none to guess."""
    with pytest.raises(asyncmy.errors.OperationalError, match="denied"):
        await mysql_value(server_url(engine), "SELECT 1", password="wrong")
    with pytest.raises(asyncmy.errors.OperationalError, match="denied"):
        await mysql_value(server_url(engine), "SELECT 1", user="root", password="")


@pytest.mark.parametrize("engine", MYSQL)
@pytest.mark.slow
async def test_what_was_committed_survives_a_crash(engine: str, own_server: OwnServer):
    """It comes back on the same port after it was killed, and after a stop."""
    server = own_server(engine)
    await mysql_value(server.url(), "CREATE DATABASE kept")
    await mysql_value(server.url("kept"), "CREATE TABLE kept AS SELECT 42 AS n")
    server.crash()
    with pytest.raises(asyncmy.errors.OperationalError):
        await mysql_value(server.url("kept"), "SELECT 1")
    server.start()
    assert await mysql_value(server.url("kept"), "SELECT n FROM kept") == 42
    server.stop()
    server.start()
    assert await mysql_value(server.url("kept"), "SELECT n FROM kept") == 42


@pytest.mark.slow
async def test_paused_it_is_silent(own_server: OwnServer):
    """Connections stand and nobody answers, until it goes on."""
    server = own_server("mariadb")
    async with session(server.url()) as connection:
        server.pause()
        asked = asyncio.ensure_future(rows(connection, "SELECT 42"))
        done, _ = await asyncio.wait([asked], timeout=0.3)
        assert not done
        server.resume()
        assert await asyncio.wait_for(asked, 30) == [(42,)]


@pytest.mark.slow
async def test_tls_and_settings(own_server: OwnServer):
    """A server with TLS proves who it is, takes nobody without, and has the settings asked for."""
    server = own_server("mariadb", tls=True, fsync=True, settings={"innodb-io-capacity": "321"})
    trust = ssl.create_default_context(cafile=AUTHORITY)
    assert await mysql_value(server.url(), "SELECT @@innodb_io_capacity", ssl=trust) == 321
    assert await mysql_value(server.url(), "SELECT @@innodb_flush_log_at_trx_commit", ssl=trust)
    with pytest.raises(asyncmy.errors.OperationalError, match=r"denied|insecure"):
        await mysql_value(server.url(), "SELECT 1")
