"""The follower of Redis's protocol: it knows which answer tells of a written timer."""

import pytest

from duetime.stores.redis import scripts
from tests.cluster.wires.redis import TimerWrites


def command(*words: str) -> bytes:
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)


ANSWER = b"*3\r\n:1\r\n$-1\r\n*2\r\n$4\r\n\r\n:1\r\n$0\r\n\r\n"


@pytest.fixture
def connection() -> TimerWrites:
    """A connection after its greetings."""
    connection = TimerWrites()
    for greeting in (command("AUTH", "secret"), command("CLIENT", "ID")):
        connection.asked(greeting)
        assert not connection.is_awaited(b"+OK\r\n")
    return connection


@pytest.mark.parametrize("script", [scripts.INSERT, scripts.APPLY])
def test_write(connection: TimerWrites, script: str):
    """The answer to a script that writes timers is known, once."""
    connection.asked(command("EVAL", script, "0", "duetime", "x"))
    assert connection.is_awaited(ANSWER)
    assert not connection.is_awaited(ANSWER)


@pytest.mark.parametrize("script", [scripts.READ, scripts.DUE, scripts.PUT_RECORD])
def test_reads_and_heartbeats(connection: TimerWrites, script: str):
    """The answers to others are passed over, whatever texts they were sent."""
    connection.asked(command("EVAL", script, "0", "duetime", scripts.APPLY))
    assert not connection.is_awaited(ANSWER)
    connection.asked(command("PING"))
    assert not connection.is_awaited(b"+PONG\r\n")


def test_pieces(connection: TimerWrites):
    """Requests and answers may come in pieces of any size."""
    for byte in command("EVAL", scripts.APPLY, "0", "duetime", "x"):
        connection.asked(bytes([byte]))
    heard = [connection.is_awaited(bytes([byte])) for byte in ANSWER]
    assert heard == [False] * (len(ANSWER) - 1) + [True]
