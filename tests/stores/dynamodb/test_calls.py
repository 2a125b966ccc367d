"""Requests that are repeated, refused and lost, as no real server does on command."""

import pytest

from duetime.errors import StoreUnavailable, Unanswered
from duetime.stores.dynamodb import batches
from duetime.stores.dynamodb.calls import Calls, Verdict
from duetime.stores.dynamodb.errors import FAILED_CONDITION
from duetime.stores.dynamodb.keys import Place
from duetime.stores.dynamodb.wire import Wire
from tests.ports import free_port
from tests.stores.dynamodb.impostor import OK, Say, impostor, refusal

BROKEN = Say(None)
INSIDE = Say(500, {"__type": "InternalServerError", "message": "oh"})
BUSY = [
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "TransactionConflictException",
    "TransactionInProgressException",
]


@pytest.fixture
async def one():
    async with impostor() as server:
        yield server


@pytest.fixture
async def calls(one):
    """Calls that give up soon."""
    made = Calls(Wire(one.address, 4), "table", within=0.5, answer_within=5)
    yield made
    await made.close()


def failed(item):
    return refusal(FAILED_CONDITION, "The conditional request failed", Item=item)


@pytest.mark.parametrize("code", BUSY)
async def test_who_is_throttled_tries_again(one, calls, code):
    """What is busy for now is asked again, a read and a write alike."""
    one.will_say(refusal(code), refusal(code), OK)
    assert await calls.ask("Query") == {}
    one.will_say(refusal(code), OK)
    assert await calls.write("PutItem") == Verdict(is_written=True)


@pytest.mark.parametrize("code", BUSY)
async def test_who_is_throttled_for_too_long_is_told(one, calls, code):
    """Patience ends, and then nothing was written and the reason is named."""
    one.will_say(refusal(code, "slow down"))
    with pytest.raises(StoreUnavailable, match=f"DynamoDB: .*{code}") as caught:
        await calls.write("PutItem")
    assert not isinstance(caught.value, Unanswered)
    assert len(one.heard) > 2


async def test_a_canceled_transaction_tells_why(one, calls):
    """A conflict is for now, a failed condition is an answer, anything else is an error."""
    conflict = [{"Code": "TransactionConflict"}, {"Code": "None"}]
    lost = [{"Code": "ConditionalCheckFailed", "Item": {"pk": {"S": "x"}}}, {"Code": "None"}]
    one.will_say(
        refusal("TransactionCanceledException", CancellationReasons=conflict),
        refusal("TransactionCanceledException", CancellationReasons=lost),
    )
    assert await calls.transact([], "token") == Verdict(False, {"pk": {"S": "x"}})
    one.will_say(
        refusal("TransactionCanceledException", CancellationReasons=[{"Code": "ValidationError"}])
    )
    with pytest.raises(StoreUnavailable, match="TransactionCanceledException"):
        await calls.transact([], "token")


@pytest.mark.parametrize("lost", [BROKEN, INSIDE, Say(200, "no object")])
async def test_a_lost_answer_is_settled_by_asking_again(one, calls, lost):
    """The second answer counts, and says that there was a first one."""
    one.will_say(lost, OK)
    assert await calls.write("PutItem") == Verdict(is_written=True, was_in_doubt=True)
    one.will_say(lost, failed({"m": {"S": "mark"}}))
    assert await calls.write("PutItem") == Verdict(False, {"m": {"S": "mark"}}, was_in_doubt=True)


@pytest.mark.parametrize("lost", [BROKEN, INSIDE])
async def test_a_write_whose_answers_are_all_lost_is_unanswered(one, calls, lost):
    """Nobody knows, and that is what is said; a read is merely unavailable."""
    one.will_say(lost)
    with pytest.raises(Unanswered):
        await calls.write("PutItem")
    with pytest.raises(StoreUnavailable) as caught:
        await calls.ask("Query")
    assert not isinstance(caught.value, Unanswered)


async def test_a_refusal_after_a_lost_answer_is_unanswered(one, calls):
    """That the second one was refused says nothing about the first."""
    one.will_say(BROKEN, refusal("AccessDeniedException"))
    with pytest.raises(Unanswered, match="may not do that"):
        await calls.write("PutItem")


async def test_nobody_there():
    """Who cannot connect has written nothing, and is told at once."""
    async with impostor() as gone:
        address = gone.address._replace(endpoint=f"http://127.0.0.1:{free_port()}")
    calls = Calls(Wire(address, 4), "table", within=60, answer_within=5)
    with pytest.raises(StoreUnavailable, match="cannot connect") as caught:
        await calls.write("PutItem")
    assert not isinstance(caught.value, Unanswered)
    await calls.close()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("AccessDeniedException", "may not do that"),
        ("ExpiredTokenException", "have run out"),
        ("InvalidSignatureException", "secret key is wrong, or this machine's clock"),
        ("ItemCollectionSizeLimitExceededException", "10 GB: use more shards"),
        ("ResourceNotFoundException", "no such table"),
        ("UnrecognizedClientException", "access key is not known"),
        ("SomethingNewException", "hello .SomethingNewException"),
    ],
)
async def test_the_frequent_ones_say_what_to_do(one, calls, code, words):
    """Errors come with words for people, and never as the driver's own."""
    one.will_say(refusal(code, "hello"))
    with pytest.raises(StoreUnavailable, match=words):
        await calls.ask("Query")
    with pytest.raises(StoreUnavailable, match=words):
        await calls.write("PutItem")


async def test_what_a_batch_leaves_over_is_asked_again(one, calls):
    """Keys and items that were not processed go again, until none are left."""
    first, second = Place("a", "1"), Place("a", "2")
    one.will_say(
        Say(
            200,
            {
                "Responses": {"table": [first.key]},
                "UnprocessedKeys": {"table": {"Keys": [second.key], "ConsistentRead": True}},
            },
        ),
        Say(
            200, {"Responses": {"table": []}, "UnprocessedKeys": {"table": {"Keys": [second.key]}}}
        ),
        Say(200, {"Responses": {"table": [second.key]}, "UnprocessedKeys": {}}),
    )
    assert await batches.read(calls, [first, second]) == {first: first.key, second: second.key}
    left = [{"PutRequest": {"Item": second.key}}]
    one.will_say(Say(200, {"UnprocessedItems": {"table": left}}), Say(200, {}))
    await batches.put(calls, [first.key, second.key])
    assert one.heard[-1][2]["RequestItems"] == {"table": left}


async def test_a_batch_that_gets_nowhere_ends(one, calls, monkeypatch):
    """It is called throttled, after some patience."""
    monkeypatch.setattr("duetime.stores.dynamodb.batches._PAUSE", 0.0001)
    item = Place("a", "1").key
    one.will_say(Say(200, {"UnprocessedItems": {"table": [{"PutRequest": {"Item": item}}]}}))
    with pytest.raises(StoreUnavailable, match="throttled"):
        await batches.put(calls, [item])
