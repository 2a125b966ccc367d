"""The watcher of DynamoDB's protocol knows the answers to writes of timers."""

import pytest

from tests.cluster.wires.dynamodb import TimerWrites, at_port, port_of

URL = "dynamodb://key:secret@local/table?endpoint=http%3A%2F%2F127.0.0.1%3A8000&pool_size=4"


def request(operation, body):
    return (
        f"POST / HTTP/1.1\r\nx-amz-target: DynamoDB_20120810.{operation}\r\n"
        f"content-length: {len(body)}\r\n\r\n{body}"
    ).encode()


def answer(status=200, body="{}"):
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


TIMER = '{"Item":{"pk":{"S":"01f"},"r":{"S":"[]"}}}'
CHANGE = '{"ExpressionAttributeValues":{":r":{"S":"[]"}}}'


@pytest.mark.parametrize(
    ("asked", "answered", "is_awaited"),
    [
        (request("PutItem", TIMER), answer(), True),
        (request("UpdateItem", CHANGE), answer(), True),
        (request("TransactWriteItems", TIMER), answer(), True),
        (request("PutItem", TIMER), answer(400), False),
        (request("PutItem", '{"Item":{"pk":{"S":"records"}}}'), answer(), False),
        (request("BatchGetItem", TIMER), answer(), False),
    ],
)
def test_only_timers_that_were_written(asked, answered, is_awaited):
    """Reads, refusals and other items are of no interest; pieces may be cut anywhere."""
    watcher = TimerWrites()
    for _ in range(2):  # one request after the other
        for at in range(0, len(asked), 7):
            watcher.asked(asked[at : at + 7])
        pieces = [answered[at : at + 5] for at in range(0, len(answered), 5)]
        seen = [watcher.is_awaited(piece) for piece in pieces]
        assert seen == [False] * (len(pieces) - 1) + [is_awaited]


def test_the_port_is_the_endpoints():
    """A proxy is put in between by another endpoint."""
    assert port_of(URL) == 8000
    assert port_of(at_port(URL, 9)) == 9
    assert at_port(URL, 8000) == URL
