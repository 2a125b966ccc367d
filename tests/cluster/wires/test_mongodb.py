"""The follower of MongoDB's protocol: it knows which answer tells of a write."""

import struct

import bson
import pytest

from tests.cluster.wires.mongodb import TimerWrites

WRITES = [{"insert": "timers", "ordered": False}, {"update": "timers", "ordered": False}]


def message(number: int, document: dict, answers: int = 0) -> bytes:
    body = struct.pack("<iB", 0, 0) + bson.encode(document)
    return struct.pack("<iiii", 16 + len(body), number, answers, 2013) + body


@pytest.mark.parametrize("write", WRITES)
def test_a_write(write):
    """The answer to a write is known, once."""
    connection = TimerWrites()
    connection.asked(message(7, write))
    assert connection.is_awaited(message(70, {"ok": 1}, 7))
    assert not connection.is_awaited(message(70, {"ok": 1}, 7))


@pytest.mark.parametrize(
    "other", [{"find": "timers"}, {"update": "records"}, {"insert": "news"}, {"hello": 1}]
)
def test_reads_and_heartbeats(other):
    """The answers to reads, and to writes of other things, are passed over."""
    connection = TimerWrites()
    connection.asked(message(7, other))
    assert not connection.is_awaited(message(70, {"ok": 1}, 7))


def test_pieces():
    """Requests and answers may come in pieces of any size."""
    connection = TimerWrites()
    for byte in message(6, {"hello": 1}) + message(7, WRITES[0]):
        connection.asked(bytes([byte]))
    answer = message(70, {"ok": 1}, 7)
    assert [connection.is_awaited(bytes([byte])) for byte in answer] == [False] * (
        len(answer) - 1
    ) + [True]
