"""What the driver and the network throw: always StoreUnavailable, and never with a password."""

import asyncio
import ssl
import sys

import asyncpg
import pytest

from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores.opening import open_store
from duetime.stores.postgres.errors import spoils_connection, translated
from tests.ports import free_port

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
OTHER_ERRORS = [
    OSError("unreachable"),
    ConnectionResetError("reset"),
    ssl.SSLError("bad handshake"),
    ssl.SSLCertVerificationError("self-signed"),
    TimeoutError(),
    asyncio.IncompleteReadError(b"", 4),
    UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
    OverflowError("too large"),
]


def translation(error):
    """What becomes of an error."""
    with pytest.raises(StoreUnavailable) as raised, translated():
        raise error
    assert raised.value.__cause__ is error
    return str(raised.value)


@pytest.mark.parametrize("kind", DRIVER_ERRORS)
def test_each_error_of_the_driver_is_mapped(kind):
    """There is none that gets out, whatever the next version of the driver adds."""
    assert "what happened" in translation(kind("what happened"))


@pytest.mark.parametrize("error", OTHER_ERRORS, ids=lambda error: type(error).__name__)
def test_each_error_of_the_network_is_mapped(error):
    """Whatever breaks on the way to the server; and the message is never empty."""
    assert translation(error).removeprefix("PostgreSQL: ")


def test_an_error_of_ours_is_not_hidden():
    """A bug is not a database that is away."""
    with pytest.raises(KeyError), translated():
        raise KeyError("bug")


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
    said = translation(kind("in its own words"))
    assert hint in said
    assert "in its own words" in said


def test_a_connection_to_a_standby_is_not_kept():
    """After a switch-over, the next connection may reach the server that takes writes."""
    assert spoils_connection(asyncpg.ReadOnlySQLTransactionError("standby"))
    assert not spoils_connection(asyncpg.UniqueViolationError("taken"))


async def refused(url):
    """How a store that cannot be opened says so."""
    store = open_store(url)
    with pytest.raises(StoreUnavailable) as raised:
        await store.migrate()
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.ping()
    await store.close()
    return str(raised.value)


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


async def test_a_missing_driver_is_named(monkeypatch):
    """Whoever installed without the driver is told how to get it."""
    for name in [*sys.modules]:
        if name.startswith("duetime.stores.postgres.store"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'duetime\[postgres\]'"):
        open_store("postgresql://ann:s3cret@db.example/timers")
