"""The follower of MySQL's protocol: it knows which answer tells of a commit."""

from tests.cluster.wires.mysql import TimerWrites

WRITE = b"BEGIN;INSERT INTO states (id) VALUES (1);COMMIT"
MORE, LAST = 0x0009, 0x0002


def packet(body: bytes) -> bytes:
    return len(body).to_bytes(3, "little") + b"\x00" + body


def query(statement: bytes) -> bytes:
    return packet(b"\x03" + statement)


def done(status: int, affected: bytes = b"\x01") -> bytes:
    return packet(b"\x00" + affected + b"\x00" + status.to_bytes(2, "little") + b"\x00\x00")


def test_the_last_answer_to_a_write_is_known():
    """However many rows a statement counts, and in pieces of any size."""
    connection = TimerWrites()
    for byte in query(WRITE):
        connection.asked(bytes([byte]))
    answer = done(MORE) + done(MORE, b"\xfc\xe8\x03") + done(LAST)
    found = [connection.is_awaited(bytes([byte])) for byte in answer]
    assert found == [False] * (len(answer) - 1) + [True]
    assert not connection.is_awaited(done(LAST))


def test_reads_and_heartbeats_and_failures_are_passed_over():
    """So is a transaction that is not over yet."""
    connection = TimerWrites()
    for statement in (
        b"SELECT * FROM states",
        b"UPDATE records SET version = 2",
        b"BEGIN;INSERT INTO timers (id) VALUES (1) ON DUPLICATE KEY UPDATE id = id",
    ):
        connection.asked(query(statement))
        assert not connection.is_awaited(done(LAST))
    connection.asked(query(WRITE))
    assert not connection.is_awaited(done(MORE) + packet(b"\xff\x26\x04#23000Duplicate entry"))
    assert not connection.is_awaited(done(LAST))
