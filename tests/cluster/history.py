"""The history of a run: what was asked and answered, what arrived, and what was seen in the end.

It is only ever added to. All times are the wall clock's of this machine, on which the nodes and
the receiver run too, so any two of them can be compared.

Each timer has a name of the load's own, its key, which it carries in its payload together with
the revision of its content: so an arrival tells which timer it is of, even if the answer to its
create was lost, and whether it is of the newest content.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from duetime.cli.receiver import Arrival
from duetime.clock import Millis, from_datetime


class Verdict(StrEnum):
    """What the answer to a request says of it."""

    ACKNOWLEDGED = "acknowledged"  # it is done, for good
    REFUSED = "refused"  # the timer's status does not allow it: nothing was done
    UNWRITTEN = "unwritten"  # 503 with code 9: nothing was written
    DOUBTFUL = "doubtful"  # no answer, or one that leaves it open: it may have been done


class Action(StrEnum):
    """What can be asked for."""

    CREATE = "create"
    UPDATE = "update"
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    FIRE = "fire"


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One request about one timer, and its answer."""

    key: str
    action: Action
    verdict: Verdict
    began: Millis
    answered: Millis  # or when it was given up
    revision: int  # of the content that it leaves the timer with
    delay: Millis = 0  # of that content; for a create and an update only

    @property
    def may_be_done(self) -> bool:
        return self.verdict in {Verdict.ACKNOWLEDGED, Verdict.DOUBTFUL}

    @property
    def is_done(self) -> bool:
        return self.verdict is Verdict.ACKNOWLEDGED


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A callback that arrived."""

    key: str
    revision: int
    at: Millis
    timer: str  # its id
    webhook_id: str
    attempt: int
    due: Millis  # as its header says


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the execution log: the attempt, who had it, and how it ended."""

    webhook_id: str
    attempt: int
    node: str
    kind: str


class Story(msgspec.Struct, kw_only=True):
    """All that is known of one timer."""

    asks: list[Ask] = []
    deliveries: list[Delivery] = []
    end: str | None = None  # its status when last looked at; None: it was not there, or no look


class History:
    """The append-only record of a run."""

    def __init__(self) -> None:
        self.asks: list[Ask] = []
        self.deliveries: list[Delivery] = []
        self.lines: list[Line] = []  # of the timers that arrived more than once
        self.ends: dict[str, str] = {}  # key -> status, at the newest look
        self.was_looked_at = False

    def note_arrival(self, arrival: Arrival) -> None:
        """Add what the receiver got."""
        payload = json.loads(arrival.body)
        self.deliveries.append(
            Delivery(
                key=payload["key"],
                revision=payload["revision"],
                at=arrival.at,
                timer=arrival.headers["x-timer-id"],
                webhook_id=arrival.headers["webhook-id"],
                attempt=int(arrival.headers["x-timer-attempt"]),
                due=to_millis(arrival.headers["x-timer-due"]),
            )
        )

    def note_look(self, ends: dict[str, str]) -> None:
        """Add what the service says of all its timers."""
        self.ends = ends
        self.was_looked_at = True

    def stories(self) -> dict[str, Story]:
        """The same, timer by timer, each in the order of time."""
        stories: dict[str, Story] = defaultdict(Story)
        for ask in sorted(self.asks, key=lambda ask: ask.began):
            stories[ask.key].asks.append(ask)
        for delivery in sorted(self.deliveries, key=lambda delivery: delivery.at):
            stories[delivery.key].deliveries.append(delivery)
        for key, story in stories.items():
            story.end = self.ends.get(key)
        return stories

    def unusual(self) -> set[str]:
        """The ids of timers that arrived more than once, or although they were canceled."""
        arrived = Counter(delivery.timer for delivery in self.deliveries)
        canceled = {ask.key for ask in self.asks if ask.action is Action.CANCEL and ask.is_done}
        return {
            delivery.timer
            for delivery in self.deliveries
            if arrived[delivery.timer] > 1 or delivery.key in canceled
        }

    def write(self, path: Path) -> None:
        """Keep it for whoever looks into a failure: one JSON document a line."""
        records: Iterable[Any] = (*self.asks, *self.deliveries, *self.lines, self.ends)
        path.write_bytes(b"\n".join(map(msgspec.json.encode, records)))


def to_millis(text: str) -> Millis:
    """A time as the service writes it."""
    return from_datetime(datetime.fromisoformat(text))
