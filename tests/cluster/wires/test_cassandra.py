"""Following Cassandra's protocol: which answers tell of a batch that was written."""

import struct

import pytest

from tests.cluster.wires.cassandra import TimerWrites

STARTUP, READY, QUERY, RESULT, BATCH = 0x01, 0x02, 0x07, 0x08, 0x0D
WRITTEN = b"metadata" + struct.pack("!iib", 1, 1, 1)
LOST = b"metadata" + struct.pack("!iib", 1, 1, 0)


def envelope(opcode, stream, body=b"", version=4):
    return struct.pack("!BBhBi", version, 0, stream, opcode, len(body)) + body


def segment(payload):
    return len(payload).to_bytes(3, "little") + b"crc" + payload + b"crc3"


@pytest.fixture(params=[4, 5])
def version(request):
    return request.param


@pytest.fixture
def framed(version):
    return segment if version == 5 else bytes


@pytest.fixture
def watcher(version):
    watching = TimerWrites()
    watching.asked(envelope(STARTUP, 0, b"{}", version))
    assert not watching.is_awaited(envelope(READY, 0, b"", 0x80 | version))
    return watching


def test_a_batch_that_was_written(watcher, framed):
    """Its answer is told, once."""
    watcher.asked(framed(envelope(BATCH, 7, b"statements")))
    answer = framed(envelope(RESULT, 7, WRITTEN))
    assert watcher.is_awaited(answer)
    assert not watcher.is_awaited(answer)


def test_all_else(watcher, framed):
    """A batch that lost, and the answers to other requests, are none."""
    watcher.asked(framed(envelope(BATCH, 1) + envelope(QUERY, 2)))
    assert not watcher.is_awaited(framed(envelope(RESULT, 1, LOST) + envelope(RESULT, 2, WRITTEN)))


def test_in_pieces(watcher, framed):
    """What comes byte by byte is put together."""
    for byte in framed(envelope(BATCH, 300, b"x" * 50)):
        watcher.asked(bytes([byte]))
    told = [watcher.is_awaited(bytes([byte])) for byte in framed(envelope(RESULT, 300, WRITTEN))]
    assert told.count(True) == 1
