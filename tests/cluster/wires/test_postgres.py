"""The follower of PostgreSQL's protocol: it knows which answer tells of a commit."""

import struct

import pytest

from tests.cluster.wires.postgres import TimerWrites

IDLE = b"Z\x00\x00\x00\x05I"
IN_TRANSACTION = b"Z\x00\x00\x00\x05T"
WRITE = b"WITH won AS (UPDATE duetime.states s SET version = 2) SELECT place FROM won"


def message(kind: bytes, *texts: bytes) -> bytes:
    body = b"".join(text + b"\x00" for text in texts)
    return kind + struct.pack("!i", len(body) + 4) + body


@pytest.fixture
def connection() -> TimerWrites:
    """A connection after its greetings."""
    connection = TimerWrites()
    connection.asked(struct.pack("!ii", 8, 80_877_103))  # may we speak TLS?
    assert not connection.is_awaited(b"N")
    connection.asked(struct.pack("!ii", 17, 196_608) + b"user\x00me\x00\x00")
    connection.asked(message(b"p", b"secret"))
    assert not connection.is_awaited(b"R\x00\x00\x00\x08\x00\x00\x00\x00" + IDLE)
    return connection


def test_prepared_write(connection: TimerWrites):
    """The answer to a prepared write is known, the one to its preparation is not taken for it."""
    connection.asked(message(b"P", b"one", WRITE) + message(b"S"))
    assert not connection.is_awaited(b"1\x00\x00\x00\x04" + IDLE)
    connection.asked(message(b"B", b"", b"one") + message(b"S"))
    assert connection.is_awaited(b"C\x00\x00\x00\x0dSELECT 1\x00" + IDLE)
    assert not connection.is_awaited(b"C\x00\x00\x00\x0dSELECT 1\x00" + IDLE)


def test_reads_and_heartbeats(connection: TimerWrites):
    """The answers to reads, and to writes of other things, are passed over."""
    for statement in (b"SELECT * FROM duetime.states", b"UPDATE duetime.records SET version = 2"):
        connection.asked(message(b"P", b"", statement) + message(b"B", b"", b"") + message(b"S"))
        assert not connection.is_awaited(IDLE)


def test_transaction(connection: TimerWrites):
    """In a transaction, it is the answer to the commit that counts."""
    connection.asked(message(b"Q", b"BEGIN"))
    assert not connection.is_awaited(IN_TRANSACTION)
    connection.asked(message(b"P", b"", WRITE) + message(b"B", b"", b"") + message(b"S"))
    assert not connection.is_awaited(IN_TRANSACTION)
    connection.asked(message(b"Q", b"COMMIT"))
    assert connection.is_awaited(b"C\x00\x00\x00\x0bCOMMIT\x00" + IDLE)


def test_pieces(connection: TimerWrites):
    """Requests and answers may come in pieces of any size."""
    for byte in message(b"P", b"", WRITE) + message(b"B", b"", b"") + message(b"S"):
        connection.asked(bytes([byte]))
    assert [connection.is_awaited(bytes([byte])) for byte in IDLE] == [False] * 5 + [True]
