"""An action: the document that says what to do with which timers, and how far that has come."""

from collections.abc import Collection
from contextlib import suppress
from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from duetime.clock import Millis
from duetime.searching import Filter
from duetime.stores import Record
from duetime.tenancy.caller import Caller
from duetime.tenancy.group import Group
from duetime.tenancy.role import Role
from duetime.timer import Status, Timer

KIND = "action"  # of the records of those that are under way
MOST_EXAMPLES = 5  # of what failed

# What users can ask for; and what is done with timers of a group that is resumed.
UserVerb: TypeAlias = Literal[
    "cancel", "pause", "resume", "fire", "redrive", "shift", "update", "delete"
]
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


class Candidate(msgspec.Struct, frozen=True, order=True):
    """A timer that fell due while its group was paused, and may be the only one that is fired."""

    due_at: Millis
    id: str
    until: Millis  # its deadline


class Emptying(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A group that is to be deleted once nothing of it is still to come."""

    group: str
    created_at: Millis  # one of the same name that was made later is another
    since: Millis | None = None  # when a pass had to be followed by another one, for the first time
    canceling: int = 0  # timers that this pass has come across and canceled
    executing: int = 0  # and those that are being delivered
    deleted_at: Millis | None = None  # what is left was made by nodes that had not heard of it
    revision: int = 0  # of the rules, by which nodes know that it is deleted
    is_known_to_all: bool = False  # when this pass began


class Label(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an action is found by; it can be read without the rest, which may be large."""

    id: str
    tenant: str
    groups: tuple[str, ...] | None = None  # the only ones that whoever asked may see; None: all
    finished_at: Millis | None = None

    @property
    def has_ended(self) -> bool:
        return self.finished_at is not None

    def is_seen_by(self, caller: Caller) -> bool:
        """Tell whether there is such an action for somebody."""
        if self.tenant != caller.tenant:
            return False
        return caller.groups is None or (
            self.groups is not None and caller.groups.issuperset(self.groups)
        )


class Action(Label, frozen=True, kw_only=True, omit_defaults=True):
    """An action, as it is stored."""

    verb: Verb
    filter: Filter
    created_before: Millis  # only timers that were are meant, so that it comes to an end
    dry_run: bool = False
    by: Millis | None = None  # for "shift"
    update: Update = UNSET  # for "update": an UpdateTimer
    resumed: Group | None = None  # for "let go": the group as it was resumed
    emptying: Emptying | None = None  # for "cancel": the group is deleted after that
    state: State = "running"
    is_canceling: bool = False
    actor: Actor
    key_ends_at: Millis | None = None  # that of whoever asked, by itself
    key: str | None = None  # by which whoever asked can ask again and be answered the same
    fingerprint: str | None = None  # of what was asked for by that key
    created_at: Millis
    updated_at: Millis
    node: str | None = None  # that works on it
    cursor: tuple[Millis, str] | None = None  # what was looked at
    has_seen_all: bool = False
    tally: Tally = Tally()  # of what was done before the batch
    batch: tuple[str, ...] = ()  # the timers that are being written
    candidates: tuple[Candidate, ...] = ()  # for "let go" by the rule "latest": in no batch yet
    chosen: str | None = None  # of these, in the last batch
    error: str | None = None
    troubles: int = 0  # how often, in a row, it was given up to be tried again

    @property
    def name(self) -> str:
        """What its record is called: by the key that whoever asked gave it, if they did.

        There is one record of a name, so one action for a key. Who may see some groups only has
        keys apart: it is not told that others have used the same one.
        """
        if self.key is None:
            return name_of(self.tenant, self.id)
        whose = self.key if self.groups is None else "\0".join((self.key, *self.groups))
        return name_of(self.tenant, f"key-{_digest(whose.encode())}")

    @property
    def is_of_group(self) -> bool:
        """Tell whether a group waits for it, to be resumed or deleted."""
        return self.verb == "let go" or self.emptying is not None

    @property
    def group(self) -> str | None:
        """The only group whose timers it can be about, if there is one."""
        groups = self.filter.within(self.groups).groups
        return groups[0] if groups is not None and len(groups) == 1 else None

    @property
    def wanted(self) -> Filter:
        """Which timers it is about."""
        wanted = self.filter.within(self.groups).before(self.created_before)
        if self.emptying is None:
            return wanted
        return replace(wanted, statuses=(*wanted.statuses, Status.EXECUTING))

    @property
    def caller(self) -> Caller:
        """On whose behalf it acts."""
        groups = None if self.groups is None else frozenset(self.groups)
        who = self.actor
        return Caller(
            self.tenant, Role.WRITE, who.name, who.key, groups, who.address, who.correlation_id
        )


def name_of(tenant: str, id_: str) -> str:
    """What the record of an action is called that was given no key."""
    return f"{tenant}/{id_}"


def fingerprint(body: msgspec.Struct, groups: Collection[str] | None) -> str:
    """A digest of what was asked for, and for which groups, to tell a repeat from another."""
    written = msgspec.json.encode([body, None if groups is None else sorted(groups)])
    with suppress(msgspec.ValidationError):  # a number beyond any range is compared as written
        written = msgspec.json.encode(msgspec.json.decode(written), order="sorted")
    return _digest(written)


def carries(timer: Timer, action: str) -> bool:
    """Tell whether a timer was changed by an action."""
    return action in (timer.progress.action or "").split()


def is_done(action: Action, timer: Timer) -> bool:
    """Tell whether an action has done with a timer what it is to do.

    One that came back after it was canceled, because its key was given new content, must go again
    if its group is to be deleted.
    """
    if not carries(timer, action.id):
        return False
    return action.emptying is None or not action.wanted.matches(timer)


def marked(timer: Timer, action: str, others: frozenset[str]) -> Timer:
    """The timer as changed by an action, and by those others that still have to know it."""
    before = (timer.progress.action or "").split()
    kept = [each for each in before if each in others and each != action]
    return replace(timer, progress=replace(timer.progress, action=" ".join([*kept, action])))


def read(record: Record) -> Action:
    """The action in a record."""
    return _decoder.decode(record.data)


def label_of(record: Record) -> Label | None:
    """The label of the action in a record, if this version can read it."""
    with suppress(msgspec.MsgspecError):
        return _label_decoder.decode(record.data)
    return None


def id_in(record: Record) -> str:
    """The id of the action in a record, whichever version has written it."""
    try:
        return _id_decoder.decode(record.data).id
    except msgspec.MsgspecError:
        return record.name.partition("/")[2]


def record_of(action: Action, old: Record | None, kind: str = KIND) -> Record:
    """The record of an action, in the place of another one or of none."""
    version = 1 if old is None else old.version + 1
    data = msgspec.json.encode(action)
    return Record(kind=kind, name=action.name, version=version, data=data)


class _Identified(msgspec.Struct):
    id: str


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


_decoder = msgspec.json.Decoder(Action)
_label_decoder = msgspec.json.Decoder(Label)
_id_decoder = msgspec.json.Decoder(_Identified)
