"""The largest timer that a user can make fits into a document of MongoDB and a packet of MySQL."""

import bson
import msgspec
import pytest

from duetime.decoding import decode
from duetime.errors import PayloadTooLarge
from duetime.requests import LARGEST_BODY, MOST_TAGS, CreateTimer, UpdateTimer
from duetime.service import Service
from duetime.stores import Change, Insert
from duetime.stores.memory import MemoryStore
from duetime.stores.mongodb.documents import HEAVIEST, to_document
from duetime.stores.mysql.writes import _FRAME, _Changed, _New
from duetime.tenancy.caller import Caller
from duetime.testing import FakeClock, RecordingSender
from duetime.timer import LIGHTEST
from tests.factories import claimed

# What their makers' servers take unless told otherwise; MySQL's own takes 64 MiB.
DOCUMENT = 16 * 1024 * 1024
PACKET = 16 * 1024 * 1024

WIDEST = "\U0001f642"  # four bytes

# What a payload may be full of: nothing to escape, or all of it.
FILLINGS = {"letters": b"x", "quotes": b"'", "backslashes": rb"\\", "wide": WIDEST.encode()}


@pytest.fixture
def service():
    return Service(MemoryStore(), RecordingSender(), FakeClock())


def body_of(filling, room):
    """A body with everything in it that may be, and as much payload as it has room for."""
    body = {
        "delay": "1h",
        "group": "g" * 128,
        "timer_id": WIDEST * 255,
        "name": WIDEST * 255,
        "correlation_id": WIDEST * 255,
        "tags": [f"{number:02}{WIDEST * 126}" for number in range(MOST_TAGS)],
        "callback": {"type": "http", "url": "https://e.com/" + "u" * 2034, "payload": ""},
    }
    written = msgspec.json.encode(body)
    left = (room - len(written)) // len(filling)
    return written.replace(b'"payload":""', b'"payload":"%s"' % (filling * left))


@pytest.mark.parametrize("filling", FILLINGS.values(), ids=FILLINGS)
async def test_the_largest_timer_fits(service, filling):
    """New or claimed, with every field at its longest."""
    body = body_of(filling, LARGEST_BODY)
    assert LARGEST_BODY - len(filling) < len(body) <= LARGEST_BODY
    timer, _ = await service.create(Caller("t" * 128), decode(body, CreateTimer))
    assert timer.weight <= HEAVIEST
    assert len(bson.encode(to_document(Insert(timer)))) < DOCUMENT
    assert _New.of(0, Insert(timer)).size <= PACKET - _FRAME
    rewritten = Change(timer, msgspec.structs.replace(claimed(timer), execute_at=1))
    assert _Changed.of(0, rewritten).size <= PACKET - _FRAME


async def test_a_timer_does_not_grow_beyond_it_by_updates(service):
    """What a request adds counts together with what was there; what makes it smaller always may."""
    room = LARGEST_BODY - 4096
    timer, _ = await service.create(Caller("t"), decode(body_of(b"x", room), CreateTimer))

    async def updated(metadata):
        return await service.update(Caller("t"), timer.id, decode(metadata, UpdateTimer))

    with pytest.raises(PayloadTooLarge, match=f"timer: must be at most {LARGEST_BODY} bytes"):
        await updated(b'{"metadata":{"a":"%s"}}' % (b"x" * 20_000))
    larger = await updated(b'{"metadata":{"a":"%s"}}' % (b"x" * 2_000))
    assert len(msgspec.json.encode(larger.spec)) <= LARGEST_BODY + LIGHTEST
    assert (await updated(b'{"metadata":{}}')).spec.weight < larger.spec.weight


async def test_a_lower_limit_holds_for_updates_too():
    """One that is larger already, from when the limit was higher, may still be changed."""
    store, sender, clock = MemoryStore(), RecordingSender(), FakeClock()
    before = Service(store, sender, clock)
    service = Service(store, sender, clock, max_timer=20_000)
    timer, _ = await before.create(Caller("t"), decode(body_of(b"x", 60_000), CreateTimer))
    grown = decode(b'{"metadata":{"a":"b"}}', UpdateTimer)
    with pytest.raises(PayloadTooLarge, match="at most 20000 bytes"):
        await service.update(Caller("t"), timer.id, grown)
    renamed = await service.update(Caller("t"), timer.id, decode(b'{"name":"n"}', UpdateTimer))
    assert renamed.spec.name == "n"
