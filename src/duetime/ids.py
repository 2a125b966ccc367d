"""Identity: a timer's id says which shard it lives in, and its key says which shard to ask.

An id is a UUIDv7 whose twelve ``rand_a`` bits are the shard, so every engine reaches a timer's
shard from its id alone. A key (tenant, group, timer_id) is hashed onto the shards of its
database by ``key_shard``; that hash never changes, because stored timers depend on it.
"""

import os
import re
import struct
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b

from duetime.clock import Millis

SHARDS = 4096
ALL_SHARDS = range(SHARDS)

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


_FIRST = "00000000-0000-0000-0000-000000000000"
_LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_LATEST = 2**48 - 1  # the last moment that an id can say


class _Lots:
    """Random bytes that nobody can guess, asked of the system by the hundred.

    Asked for one by one, they would be a sixth of the work of making a timer in a batch.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Have none, as in a process that has just split off another: both would have the same."""
        self._left: Iterator[tuple[bytes]] = iter(())

    def draw(self) -> bytes:
        if os.urandom is not _urandom:  # somebody rolls dice of their own, and wants each counted
            return os.urandom(_LOT)
        for (lot,) in self._left:  # which is one step of C, whatever threads there are
            return lot
        self._left = struct.iter_unpack(f"{_LOT}s", os.urandom(_LOT * _AT_ONCE))
        return self.draw()


_LOT = 10  # bytes: of the id, and of the shard
_AT_ONCE = 400
_urandom = os.urandom
_lots = _Lots()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lots.forget)


def new_id(now: Millis, shard: int) -> str:
    """Make an id that sorts by time and carries its shard."""
    return _id(now, shard, _lots.draw())


def new_spread_id(now: Millis, num_shards: int) -> str:
    """Make an id in any shard, for a timer that has no key of the user's."""
    lot = _lots.draw()
    return _id(now, int.from_bytes(lot[8:]) % num_shards, lot)


def _id(now: Millis, shard: int, lot: bytes) -> str:
    text = lot.hex()  # the first digit says which kind of UUID it is, and has room for two bits
    return f"{_moment(now)}-7{shard:03x}-{'89ab'[lot[0] >> 6]}{text[1:4]}-{text[4:16]}"


@lru_cache(maxsize=64)  # many are made in one millisecond
def _moment(at: Millis) -> str:
    return f"{at >> 16:08x}-{at & 0xFFFF:04x}"


def event_id(timer: str, at: Millis, version: int, number: int) -> str:
    """Make the id of what happened to a timer: the same whoever makes it, and in order.

    Events of one timer sort by when they happened, then by the version that they made of it, then
    by their number among those of that version; what is left of the id tells timers apart.
    """
    moment = f"{at:012x}"
    place = f"{0x80_0000 | (version & 0xF_FFFF) << 2 | number:06x}"
    return f"{moment[:8]}-{moment[8:]}-{timer[14:18]}-{place[:4]}-{place[4:]}{timer[26:]}"


def shard_of(id_: str) -> int:
    """Read the shard out of an id."""
    return int(id_[15:18], 16)


def time_of(id_: str) -> Millis:
    """Read out of an id when it was made."""
    return int(id_[:8] + id_[9:13], 16)


def is_id(text: str) -> bool:
    """Tell whether a text could be the id of a timer, as ``new_id`` writes them."""
    return _ID.fullmatch(text) is not None


def is_uuid(text: str) -> bool:
    """Tell whether a text is a UUID of any kind, in either case."""
    return _UUID.fullmatch(text) is not None


def from_bytes(value: bytes) -> str:
    """Write the sixteen bytes of an id as its text."""
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def bound(text: str) -> str:
    """Make a UUID to compare with: a text that is none may still say where to go on, at an end."""
    if is_uuid(text):
        return text.lower()
    return _FIRST if text < "0" else _LAST


def first_at(at: Millis) -> str:
    """Find the least id that can have been made at a time."""
    text = f"{min(max(at, 0), _LATEST):012x}"
    return f"{text[:8]}-{text[8:]}-0000-0000-000000000000"


def key_shard(tenant: str, group: str, timer_id: str, num_shards: int) -> int:
    """Find the shard of a key among those of its database, the same for ever.

    The key of a timer without one of the user's is its id, which says its shard. So a key that
    has the form of an id is looked for where the timer with that id would be.
    """
    if _ID.fullmatch(timer_id):
        return shard_of(timer_id) % num_shards
    digest = blake2b(f"{tenant}\0{group}\0{timer_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % num_shards


def derived_key(id_: str, what: str) -> str:
    """Make a key that follows from an id, in the form of an id: so it lies in the same shard."""
    digest = int.from_bytes(blake2b(f"{id_}\0{what}".encode(), digest_size=8).digest())
    random = digest & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
    text = f"{time_of(id_):012x}7{shard_of(id_):03x}{random:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def spread_shard(num_shards: int) -> int:
    """Pick a shard for what has no key of the user's."""
    return int.from_bytes(_lots.draw()[8:]) % num_shards
