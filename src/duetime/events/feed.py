"""A feed is where events come from, whoever wrote them: in order per timer, from any position on.

A position is a text that every node understands: its *family*, which says which feed it is of, and
a place, with a dash between them. Positions of one family sort as texts, and places of one feed do.
They tell of events of all tenants, so nobody outside may read one.
"""

from typing import Literal, NamedTuple, Protocol

import msgspec

from duetime.errors import InvalidRequest
from duetime.timer import Event

FIRST = "first"  # in the place of a position: from the first event that is kept


class Seen(msgspec.Struct, frozen=True):
    """What filters ask of an event, as it is seen outside."""

    id: str
    type: str
    tenant: str
    group: str
    timer: str
    tags: tuple[str, ...] = ()


class Told(NamedTuple):
    """An event on its way to whoever listens: what filters ask of it, and as what it is seen."""

    position: str  # whoever goes on from here misses nothing
    id: str
    type: str
    tenant: str
    group: str
    timer: str
    tags: tuple[str, ...]
    body: bytes
    is_late: bool = False  # it came when its place had been passed: the position is another's

    @classmethod
    def of(
        cls, event: Event | Seen, position: str, body: bytes, *, is_late: bool = False
    ) -> "Told":
        about = event.id, event.type, event.tenant, event.group, event.timer, event.tags
        return cls(position, *about, body, is_late)


class Tail(Protocol):
    """Somebody who reads along a feed."""

    @property
    def position(self) -> str:
        """How far it has come; also over events that nobody wanted to hear of."""

    @property
    def is_level(self) -> bool:
        """Tell whether all has been told that was there when it was last asked to begin."""

    async def read(self) -> list[Told]:
        """What comes next. It waits a while for something, and then may have nothing.

        Raises StoreError or NatsError. The next call goes on where this one failed.
        """

    def has_told(self, told: Told) -> bool:
        """Tell whether this one was among what it read, as far as that is not long ago."""

    async def close(self) -> None:
        """Read no more. Idempotent."""


class Feed(Protocol):
    """Where events come from."""

    async def tail(self, after: str | None, tenant: str | None = None) -> Tail:
        """Begin to read behind a position, at the ``FIRST``, or, without one, with what is new.

        With a tenant, others' events may be left out. Raises InvalidRequest if the position is
        none of this feed, or is of so long ago that some of what followed is no longer kept.
        """


def family_of(position: str) -> str:
    """Those with which a position can be compared, all of one tail or one stream."""
    return position.partition("-")[0]


def place_of(position: str) -> str:
    """Where it is in its feed."""
    return position.partition("-")[2]


def place_in(position: str, kind: Literal["outbox", "stream"]) -> str:
    """What a position says, if it is one of this kind of feed."""
    if family_of(position).partition(".")[0] == kind:
        return place_of(position)
    raise InvalidRequest(
        "Last-Event-ID: is of before NATS was switched on or off; leave it out, or say "
        f"'{FIRST}' for all that there is"
    )


def too_old() -> InvalidRequest:
    """What to raise about a position behind which something is gone."""
    return InvalidRequest(
        "Last-Event-ID: what followed it is no longer kept; leave it out, or say "
        f"'{FIRST}' for all that there is"
    )
