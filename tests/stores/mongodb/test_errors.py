"""What the driver and the network throw: always StoreUnavailable, and never with a password."""

import gc

import pymongo.errors
import pytest
from bson.errors import InvalidDocument
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    NetworkTimeout,
    OperationFailure,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)

from duetime.errors import StoreUnavailable
from duetime.stores.mongodb.documents import to_id
from duetime.stores.mongodb.errors import translated, was_never_sent
from tests.factories import claim_of, claimed, insert, make_timer
from tests.ports import free_port
from tests.stores.translations import refused, translation

DRIVER_ERRORS = sorted(
    {
        kind
        for kind in vars(pymongo.errors).values()
        if isinstance(kind, type)
        and issubclass(kind, pymongo.errors.PyMongoError)
        and not issubclass(kind, BulkWriteError | pymongo.errors.ClientBulkWriteException)
    },
    key=lambda kind: kind.__name__,
)
OTHER_ERRORS = [
    InvalidDocument("what is that?"),
    BulkWriteError({"writeErrors": [{"code": 1, "errmsg": "what happened"}]}),
    BulkWriteError({}),
]


@pytest.mark.parametrize("kind", DRIVER_ERRORS)
def test_each_error_of_the_driver_is_mapped(kind):
    """There is none that gets out, whatever the next version of the driver adds."""
    error = (
        kind("x", ["what"])
        if issubclass(kind, pymongo.errors.EncryptedCollectionError)
        else (kind("what happened"))
    )
    assert translation(translated, error).removeprefix("MongoDB: ")


@pytest.mark.parametrize("error", OTHER_ERRORS, ids=lambda error: type(error).__name__)
def test_each_error_of_the_driver_has_words(error):
    """Also those that carry many, or a document that cannot be written."""
    assert translation(translated, error).removeprefix("MongoDB: ")


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (OperationFailure("in its own words", 18), "the user or the password is wrong (in its own"),
        (OperationFailure("in its own words", 50), "it took too long"),
        (OperationFailure("in its own words", 13), "may not do that"),
        (OperationFailure("in its own words", 10107), "no primary"),
        (OperationFailure("in its own words", 14031), "disk is full"),
        (BulkWriteError({"writeConcernErrors": [{"code": 64, "errmsg": "x"}]}), "too few members"),
        (ServerSelectionTimeoutError("refused, Timeout: 5s"), "no primary could be reached"),
        (WaitQueueTimeoutError("pool"), "raise pool_size"),
        (NetworkTimeout("x"), "no answer in time"),
    ],
)
def test_the_frequent_ones_say_what_to_do(error, hint):
    """In words."""
    assert hint in translation(translated, error)


def test_a_document_of_the_users_is_not_repeated():
    """The driver tells what was to be written; a message does not."""
    error = BulkWriteError(
        {"writeErrors": [{"code": 1, "errmsg": "no", "op": {"spec": "s3cret payload"}}]}
    )
    assert translation(translated, error) == "MongoDB: no"


def test_what_was_never_sent_needs_no_settling():
    """Only where no server could be found at all."""
    assert was_never_sent(ServerSelectionTimeoutError("nobody"))
    assert not was_never_sent(AutoReconnect("closed"))
    assert not was_never_sent(NetworkTimeout("silent"))


# Closed in the middle of connecting, the driver leaves its socket to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_no_message_holds_the_password(url, monkeypatch):
    """Whatever is wrong with the address, the message says what, and nothing secret."""
    password = url.partition("@")[0].rpartition(":")[2]
    port = url.partition("@")[2].partition("/")[0].rpartition(":")[2]
    said = {
        "the user or the password is wrong": url.replace(password, "wr0ng-s3cret"),
        "no primary could be reached": url.replace(f":{port}/", f":{free_port()}/"),
        "no primary could be": url.replace("127.0.0.1", "no-such-host.invalid"),
    }
    for expected, wrong in said.items():
        if "wr0ng" not in wrong:  # nobody answers there, however long it is waited for
            monkeypatch.setattr("duetime.stores.mongodb.schema.CONNECT_WITHIN", 0.3)
        message = await refused(wrong)
        assert expected in message
        assert password not in message
        assert "s3cret" not in message
    gc.collect()


async def test_what_the_server_refuses_is_not_a_lost_race(mongodb, database):
    """A change that fails for another reason than its version is told as a failure."""
    timer, other = make_timer(), make_timer()
    await insert(mongodb, timer, other)
    refused = {"$nor": [{"_id": to_id(timer.id), "status": "executing"}]}
    await database.command("collMod", "timers", validator=refused)
    with pytest.raises(StoreUnavailable):
        await mongodb.apply([claim_of(timer), claim_of(other)])
    await database.command("collMod", "timers", validator={})
    assert await mongodb.get([timer.id, other.id]) == [timer, claimed(other)]
    assert await mongodb.apply([claim_of(timer), claim_of(other)]) == [True, False]
