"""What the driver and the network throw: always StoreUnavailable, and never with a password."""

import struct

import cassandra
import pytest
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionShutdown
from cassandra.pool import NoConnectionsAvailable
from cassandra.protocol import OverloadedErrorMessage, ServerError

from duetime.errors import ConfigurationError, StoreUnavailable
from duetime.stores.cassandra.errors import may_have_begun, translated
from tests.ports import free_port
from tests.servers.cassandra import administrator
from tests.servers.fixtures import OwnServer

# Nothing was begun after the first; anything may have been after the second.
REFUSALS = [
    NoHostAvailable("none", {}),
    NoConnectionsAvailable("none"),
    ConnectionBusy("full"),
    cassandra.InvalidRequest("what"),
    cassandra.Unauthorized("you may not"),
    struct.error("too big"),
    UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
    OverflowError("too large"),
]
DOUBTS = [
    cassandra.OperationTimedOut("late"),
    cassandra.WriteTimeout("late", write_type=0),
    cassandra.WriteFailure("no", write_type=0),
    cassandra.ReadTimeout("late"),
    cassandra.ReadFailure("no"),
    cassandra.Unavailable("too few"),
    cassandra.AuthenticationFailed("who"),
    cassandra.CoordinationFailure("no"),
    ConnectionShutdown("gone"),
    ServerError(0, "bug", None),
    OverloadedErrorMessage(0x1001, "full", None),
    OSError("unreachable"),
    ConnectionResetError("reset"),
    TimeoutError(),
]


@pytest.mark.parametrize("error", [*REFUSALS, *DOUBTS], ids=lambda error: type(error).__name__)
def test_each_error_is_mapped(error):
    """None gets out, and the message is never empty."""
    with pytest.raises(StoreUnavailable, match=r"^Cassandra: .") as raised, translated():
        raise error
    assert raised.value.__cause__ is error


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_after_a_refusal_nothing_was_begun(error):
    """Nobody has to be asked what became of it."""
    assert not may_have_begun(error)


@pytest.mark.parametrize("error", DOUBTS, ids=lambda error: type(error).__name__)
def test_after_all_else_something_may_have_been(error):
    """Also when too few servers are up: some may have been asked before the others were missed."""
    assert may_have_begun(error)


async def test_nobody_listens(open_store):
    """A server that is not there is told as such, without the password."""
    with pytest.raises(StoreUnavailable, match="no server of the cluster") as raised:
        await open_store(f"cassandra://ann:s3cret@127.0.0.1:{free_port()}/k")
    assert "s3cret" not in str(raised.value)


@pytest.mark.slow
async def test_users_and_rights(own_server: OwnServer, open_store):
    """A wrong password is told as such; who may not make a keyspace is told what to run."""
    server = own_server("cassandra", passwords=True, settings={"authorizer": "CassandraAuthorizer"})
    right = server.url("k")
    await open_store(right)
    with pytest.raises(StoreUnavailable, match="the user or the password is wrong") as raised:
        await open_store(right.replace("cassandra@", "s3cret@"))
    assert "s3cret" not in str(raised.value)
    session = administrator(server.url())
    session.execute("CREATE ROLE ann WITH PASSWORD = 'pw' AND LOGIN = true")
    with pytest.raises(ConfigurationError, match=r"may not make .* other.*CREATE KEYSPACE"):
        await open_store(server.url("other").replace("cassandra:cassandra@", "ann:pw@"))
    session.cluster.shutdown()


async def test_a_keyspace_that_must_exist_is_not_made(cassandra_url: str, open_store):
    """The message names it; once it is made, it is opened."""
    url = f"{cassandra_url}_not_yet"
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"no timers in the keyspace test_.*_not_yet"):
            await open_store(url, must_exist=True)
    await open_store(url)
    assert await (await open_store(url, must_exist=True)).scan(None, 10) == []
    administrator(f"{cassandra_url.rpartition('/')[0]}/").execute(
        f"DROP KEYSPACE {url.rpartition('/')[2]}"
    )
