"""What the driver and the network throw: always StoreUnavailable, and never with a password."""

import pytest
from asyncmy import errors

from duetime.errors import ConfigurationError
from duetime.stores.mysql.errors import is_told, spoils_connection, translated
from duetime.stores.opening import open_store
from tests.ports import free_port
from tests.stores.translations import refused, translation

DRIVER_ERRORS = sorted(
    {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    },
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", DRIVER_ERRORS)
def test_each_error_of_the_driver_is_mapped(kind):
    """With its number or without: there is none that gets out."""
    assert "what happened" in translation(translated, kind(1234, "what happened"))
    assert "what happened" in translation(translated, kind("what happened"))


def test_a_text_that_cannot_be_written_is_refused_in_words():
    """It never left: the driver could not make bytes of it."""
    error = UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
    assert translation(translated, error)


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (1040, "raise max_connections, or lower pool_size"),
        (1045, "add ssl_mode=required"),
        (1049, "CREATE DATABASE"),
        (1114, "disk is full"),
        (1153, "raise max_allowed_packet"),
        (1205, "somebody held a lock for too long"),
        (1213, "waited for each other"),
        (1290, "replica"),
        (1836, "replica"),
        (1969, "took too long"),
        (3024, "took too long"),
    ],
)
def test_the_frequent_ones_say_what_to_do(number, hint):
    """In words, with the server's own behind them."""
    said = translation(translated, errors.OperationalError(number, "in its own words"))
    assert hint in said
    assert "in its own words" in said


def test_a_connection_to_a_replica_is_not_kept():
    """After a switch-over, the next connection may reach the server that takes writes."""
    assert spoils_connection(errors.OperationalError(1290, "--read-only"))
    assert not spoils_connection(errors.IntegrityError(1062, "taken"))


def test_what_the_server_says_is_certain_and_what_the_driver_says_is_not():
    """A lost connection says nothing of what was asked on it."""
    assert is_told(errors.IntegrityError(1062, "taken"))
    assert is_told(errors.OperationalError(3024, "too long"))
    assert not is_told(errors.OperationalError(2013, "lost connection"))
    assert not is_told(errors.InterfaceError(0, "not connected"))
    assert not is_told(TimeoutError())


async def test_no_message_holds_the_password(mysql_url):
    """Whatever is wrong with the address, the message says what, and nothing secret."""
    password = mysql_url.partition("@")[0].rpartition(":")[2]
    port = mysql_url.rpartition(":")[2].partition("/")[0]
    said = {
        "Access denied": mysql_url.replace(password, "wr0ng-s3cret"),
        "CREATE DATABASE": f"{mysql_url}_of_nobody",
        "refused|failed": mysql_url.replace(f":{port}/", f":{free_port()}/"),
        "known|resol|nodename|name": mysql_url.replace("127.0.0.1", "no-such-host.invalid"),
        "SSL|certificate|TLS|Lost|denied": f"{mysql_url}?ssl_mode=verify_identity",
    }
    for expected, url in said.items():
        message = await refused(url)
        assert any(part in message for part in expected.split("|")), (expected, message)
        assert password not in message
        assert "s3cret" not in message


async def test_a_user_without_rights_is_told_what_is_missing(mysql_url, somebody):
    """By the name of what an administrator would run."""
    database = mysql_url.rpartition("/")[2]
    name = f"u{database[-12:]}"
    await somebody(f"CREATE USER {name}@'%' IDENTIFIED BY 'few-s3cret'")
    await somebody(f"GRANT SELECT ON {database}.* TO {name}@'%'")
    owner, _, where = mysql_url.partition("@")
    store = open_store(f"{owner.partition('://')[0]}://{name}:few-s3cret@{where}")
    with pytest.raises(ConfigurationError, match=f"GRANT ALL ON {database}") as raised:
        await store.migrate()
    assert "s3cret" not in str(raised.value)
    await store.close()
    await somebody(f"DROP USER {name}@'%'")
