"""Keys: under which partition and place an item lies.

| partition | place | what |
|---|---|---|
| `01f`, a shard | an id | a timer without a key of the user's, or where the one with this id lies |
| `01f` | `k` and a digest of the key | a timer with a key of the user's, unique by its place |
| an id | `s`, a digest and a number | a part of a content that is too heavy to lie in the timer |
| an id | `a`, occurrence and attempt | a line of the execution log that is no longer in the timer |
| `e01f` | an event's id | an event |
| `shards` | `01f` | that the shard is in use |
| `records` | kind and name | a document |
| `l0020254.3.acme`, a part of a tenant's day | an id | a line of the audit |
| `days.acme`, a tenant | `0020254` | that there are lines of this day |
"""

from hashlib import blake2b
from typing import Any, NamedTuple

from duetime import ids
from duetime.clock import Millis
from duetime.timer import Timer

SHARDS = "shards"
RECORDS = "records"
BEHIND_IDS = "g"  # ids are of 0-9 and a-f

_DAY_PARTS = 4
_DAY: Millis = 86_400_000
_LAST_MILLIS = 10**15 - 1  # fifteen digits


class Place(NamedTuple):
    """Where an item lies."""

    partition: str
    place: str

    @property
    def key(self) -> dict[str, dict[str, str]]:
        """As DynamoDB wants it."""
        return {"pk": {"S": self.partition}, "sk": {"S": self.place}}

    @classmethod
    def of(cls, item: dict[str, dict[str, Any]]) -> "Place":
        """Where an item that was read lies."""
        return cls(item["pk"]["S"], item["sk"]["S"])


def partition_of(shard: int) -> str:
    """The partition of a shard."""
    return f"{shard:03x}"


def of_id(shard: int, id_: str) -> Place:
    """Where a timer without a key lies, or where it says where the timer with this id does."""
    return Place(partition_of(shard), id_)


def of_key(shard: int, tenant: str, group: str, timer_id: str) -> Place:
    """Where a timer with a key of the user's lies. The digest is short, and fits into a place."""
    parts = (tenant, group, timer_id)
    text = b"".join(b"%d:%s" % (len(part), part) for part in map(str.encode, parts))
    return Place(partition_of(shard), f"k{blake2b(text, digest_size=16).hexdigest()}")


def has_own_key(timer: Timer) -> bool:
    """Whether the timer has a key of the user's; the key of one without is its id."""
    return timer.timer_id != timer.id


def of_timer(timer: Timer) -> Place:
    """Where a timer lies."""
    if has_own_key(timer):
        return of_key(timer.shard, timer.tenant, timer.group, timer.timer_id)
    return of_id(timer.shard, timer.id)


def waking(wake_at: Millis, id_: str) -> str:
    """The place in the due index: in the order of (wake_at, id)."""
    return f"{min(max(wake_at, 0), _LAST_MILLIS):015d}{id_}"


def of_attempt(timer: str, occurrence: int, attempt: int) -> Place:
    """Where a line of the execution log lies."""
    return Place(timer, f"a{occurrence:010d}.{attempt:010d}")


def of_part(timer: str, digest: str, number: int) -> Place:
    """Where a part of a heavy content lies."""
    return Place(timer, f"s{digest}.{number:04d}")


class Day(NamedTuple):
    """A day of a tenant's, which lines of the audit belong to by their ids.

    A partition may have 10 GB, and takes 1,000 lines a second. So there is one for each day, or
    rather some, over which the lines are spread by the ends of their ids.
    """

    tenant: str
    number: int  # since 1970

    @classmethod
    def of(cls, tenant: str, line: str) -> "Day":
        """The day on which a line of a tenant's was made."""
        return cls(tenant, ids.time_of(line) // _DAY)

    @property
    def ends_at(self) -> Millis:
        """When no more lines are made that belong there."""
        return (self.number + 1) * _DAY

    @property
    def in_list(self) -> Place:
        """Where the list of a tenant's days has it."""
        return Place(f"days.{self.tenant}", f"{self.number:07d}")

    @property
    def partitions(self) -> list[str]:
        """The partitions of its lines."""
        return [f"l{self.number:07d}.{part}.{self.tenant}" for part in range(_DAY_PARTS)]

    def of_line(self, line: str) -> Place:
        """Where a line lies."""
        return Place(self.partitions[int(line[-2:], 16) % _DAY_PARTS], line)


def of_event(shard: int, id_: str) -> Place:
    """Where an event lies."""
    return Place(f"e{partition_of(shard)}", id_)
