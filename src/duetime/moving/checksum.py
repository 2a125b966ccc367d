"""The checksum of a store: how much it holds, and a number that any difference changes.

Stores have orders of their own. So each thing has a digest, and the checksum is their sum: it is
the same in whatever order they are added.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from duetime.audit_line import AuditLine
from duetime.stores import Record
from duetime.timer import Attempt, Event, Timer

_BYTES = 16

# Mappings are sorted, for not every engine keeps their order. The user's own JSON stays as it is.
_encode = msgspec.json.Encoder(order="sorted").encode


class Tally(msgspec.Struct, kw_only=True):
    """What was counted so far. Two stores that hold the same have equal ones."""

    timers: int = 0
    attempts: int = 0
    events: int = 0
    records: int = 0
    lines: int = 0  # of the audit
    total: int = 0

    def add_timer(self, timer: Timer, attempts: Sequence[Attempt]) -> None:
        """A timer with its execution log."""
        self.timers += 1
        self.attempts += len(attempts)
        self._add(b"timer", [timer, attempts])

    def add_event(self, event: Event) -> None:
        self.events += 1
        self._add(b"event", event)

    def add_record(self, record: Record) -> None:
        self.records += 1
        self._add(b"record", record)

    def add_line(self, line: AuditLine) -> None:
        self.lines += 1
        self._add(b"line", line)

    @property
    def checksum(self) -> str:
        """The sum, in hexadecimal digits."""
        return f"{self.total:0{2 * _BYTES}x}"

    def _add(self, kind: bytes, thing: Any) -> None:
        digest = blake2b(_encode(thing), digest_size=_BYTES, person=kind).digest()
        self.total = (self.total + int.from_bytes(digest)) % (1 << 8 * _BYTES)
