"""An action: the document that says what to do with which timers, and how far that has come."""

from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from duetime.clock import Millis
from duetime.model import Timer
from duetime.searching import Filter
from duetime.stores import Record
from duetime.tenancy.caller import Caller
from duetime.tenancy.group import Group
from duetime.tenancy.role import Role

KIND = "action"  # of the records of those that are under way
MOST_EXAMPLES = 5  # of what failed

# What users can ask for; and what is done with timers of a group that is resumed.
UserVerb: TypeAlias = Literal["cancel", "pause", "resume", "fire", "shift", "update", "delete"]
Verb: TypeAlias = UserVerb | Literal["let go"]

Update: TypeAlias = Raw | UnsetType

# "prepared": it must not begin yet.
State: TypeAlias = Literal["prepared", "running", "done", "canceled", "failed"]


class Actor(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who asked."""

    name: str
    key: str | None = None
    address: str | None = None
    correlation_id: str | None = None


class Example(msgspec.Struct, frozen=True):
    """A timer that the action could not change, and why."""

    timer: str
    error: str


class Tally(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many timers matched, and what became of them."""

    matched: int = 0
    changed: int = 0
    skipped: int = 0  # their status does not allow it
    failed: int = 0
    examples: tuple[Example, ...] = ()

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            matched=self.matched + other.matched,
            changed=self.changed + other.changed,
            skipped=self.skipped + other.skipped,
            failed=self.failed + other.failed,
            examples=(self.examples + other.examples)[:MOST_EXAMPLES],
        )


class Latest(msgspec.Struct, frozen=True, order=True):
    """A timer that fell due while its group was paused, later than all others so far."""

    due_at: Millis
    id: str


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An action, as it is stored."""

    id: str
    tenant: str
    verb: Verb
    filter: Filter
    groups: tuple[str, ...] | None = None  # the only ones that whoever asked may see; None: all
    created_before: Millis  # only timers that were are meant, so that it comes to an end
    dry_run: bool = False
    by: Millis | None = None  # for "shift"
    update: Update = UNSET  # for "update": an UpdateTimer
    resumed: Group | None = None  # for "let go": the group as it was resumed
    then_delete: str | None = None  # the group to delete when this is done
    state: State = "running"
    is_canceling: bool = False
    actor: Actor
    created_at: Millis
    updated_at: Millis
    finished_at: Millis | None = None
    node: str | None = None  # that works on it
    cursor: tuple[Millis, str] | None = None  # what was looked at
    has_seen_all: bool = False
    tally: Tally = Tally()  # of what was done before the batch
    batch: tuple[str, ...] = ()  # the timers that are being written
    latest: Latest | None = None  # for "let go" by the rule "latest": not in any batch yet
    chosen: str | None = None  # the same in the last batch
    error: str | None = None

    @property
    def name(self) -> str:
        """What its record is called."""
        return f"{self.tenant}/{self.id}"

    @property
    def has_ended(self) -> bool:
        return self.finished_at is not None

    @property
    def wanted(self) -> Filter:
        """Which timers it is about."""
        return self.filter.within(self.groups).before(self.created_before)

    @property
    def caller(self) -> Caller:
        """On whose behalf it acts."""
        groups = None if self.groups is None else frozenset(self.groups)
        who = self.actor
        return Caller(
            self.tenant, Role.WRITE, who.name, who.key, groups, who.address, who.correlation_id
        )

    def is_seen_by(self, caller: Caller) -> bool:
        """Tell whether there is such an action for somebody."""
        if self.tenant != caller.tenant:
            return False
        return caller.groups is None or (
            self.groups is not None and caller.groups.issuperset(self.groups)
        )


def carries(timer: Timer, action: str) -> bool:
    """Tell whether a timer was changed by an action."""
    return action in (timer.progress.action or "").split()


def marked(timer: Timer, action: str, others: frozenset[str]) -> Timer:
    """The timer as changed by an action, and by those others that still have to know it."""
    before = (timer.progress.action or "").split()
    kept = [each for each in before if each in others and each != action]
    return replace(timer, progress=replace(timer.progress, action=" ".join([*kept, action])))


def read(record: Record) -> Action:
    """The action in a record."""
    return _decoder.decode(record.data)


def record_of(action: Action, old: Record | None, kind: str = KIND) -> Record:
    """The record of an action, in the place of another one or of none."""
    version = 1 if old is None else old.version + 1
    data = msgspec.json.encode(action)
    return Record(kind=kind, name=action.name, version=version, data=data)


_decoder = msgspec.json.Decoder(Action)
