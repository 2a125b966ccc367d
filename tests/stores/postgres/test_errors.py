"""What the driver and the network throw: always StoreUnavailable, and never with a password."""

import asyncpg
import pytest

from duetime.stores.postgres.errors import spoils_connection, translated
from tests.ports import free_port
from tests.stores.translations import refused, translation

DRIVER_ERRORS = sorted(
    {
        kind
        for kind in vars(asyncpg.exceptions).values()
        if isinstance(kind, type)
        and issubclass(kind, Exception)
        and not issubclass(kind, Warning | asyncpg.PostgresLogMessage)
    },
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", DRIVER_ERRORS)
def test_each_error_of_the_driver_is_mapped(kind):
    """There is none that gets out, whatever the next version of the driver adds."""
    assert "what happened" in translation(translated, kind("what happened"))


def test_a_text_that_cannot_be_written_is_refused_in_words():
    """It never left: the driver could not make bytes of it."""
    error = UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
    assert translation(translated, error)


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        (asyncpg.LockNotAvailableError, "somebody held a lock for too long"),
        (asyncpg.QueryCanceledError, "took too long"),
        (asyncpg.ReadOnlySQLTransactionError, "standby"),
        (asyncpg.DeadlockDetectedError, "waited for each other"),
        (asyncpg.TooManyConnectionsError, "raise max_connections, or lower pool_size"),
        (asyncpg.DiskFullError, "disk is full"),
    ],
)
def test_the_frequent_ones_say_what_to_do(kind, hint):
    """In words, with the server's own behind them."""
    said = translation(translated, kind("in its own words"))
    assert hint in said
    assert "in its own words" in said


def test_a_connection_to_a_standby_is_not_kept():
    """After a switch-over, the next connection may reach the server that takes writes."""
    assert spoils_connection(asyncpg.ReadOnlySQLTransactionError("standby"))
    assert not spoils_connection(asyncpg.UniqueViolationError("taken"))


async def test_no_message_holds_the_password(postgres_url):
    """Whatever is wrong with the address, the message says what, and nothing secret."""
    server = postgres_url.partition("?")[0]
    password = server.partition("@")[0].rpartition(":")[2]
    port = server.rpartition(":")[2].partition("/")[0]
    said = {
        "password authentication failed": server.replace(password, "wr0ng-s3cret"),
        "does not exist": f"{server}_of_nobody",
        "failed|refused": server.replace(f":{port}/", f":{free_port()}/"),
        "known|resol|nodename|name": server.replace("127.0.0.1", "no-such-host.invalid"),
        "sslmode": f"{server}?sslmode=bogus",
        "rejected SSL|certificate|SSL": f"{server}?sslmode=require",
    }
    for expected, url in said.items():
        message = await refused(url)
        assert any(part in message for part in expected.split("|")), (expected, message)
        assert password not in message
        assert "s3cret" not in message
