"""A node: what it writes down of itself, how another one sees it, and how its engine does."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from duetime.clock import Millis

NODE_KIND = "node"  # of the records in which nodes write down what they are
LEAVING = "leaving"  # of those of nodes that have left the others, and end what is under way

NodeState: TypeAlias = Literal["alive", "joining", "leaving", "dead", "unknown"]
_Length: TypeAlias = Annotated[Millis, Meta(gt=0)]


class TargetReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node tells of one receiver.

    Times are how long ago something was, or how long is left, when it is told.
    """

    waiting: int = 0  # timers that this node has in sight
    under_way: int = 0
    failures: int = 0  # in a row
    error: str | None = None  # of the last one
    failing_for: Millis | None = None  # None: it is not
    probe_in: Millis = 0  # until it is tried again; 0: that is so now
    # What this node has seen by itself, for the others to go by.
    shut_ago: Millis = 0
    shut_for: Millis = 0
    pause: Millis = 0  # so long was the last one, of which each is twice as long as the one before
    recovered_ago: Millis | None = None  # it was failing, and is well since


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a node writes down of itself with every heartbeat."""

    ttl: _Length = 10_000  # it may be taken for dead when its record stood still for so long
    beat_every: _Length = 2_000
    is_joining: bool = False  # it still watches who is alive, and looks after no shard yet
    runs_api: bool = True
    runs_engine: bool = True
    host: str = ""
    pid: int = 0
    version: str = ""
    started_at: Millis = 0
    left_at: Millis = 0  # where it is leaving
    shards: int = 0
    behind_ms: Millis = 0
    rules: int = 0  # the revision of tenants, keys and groups that it goes by
    makes_by: int = 0  # the revision of the tenants by which it makes all that it still may make
    demand: dict[str, float] = {}  # how many timers per second are asked for, where that is limited
    growth: dict[str, int] = {}  # by how much those that wait have grown since it came, likewise
    sends_by: int = 0  # the revision of the targets by which it sends
    targets: dict[str, TargetReport] = {}  # those that are not well, and the busiest few
    callbacks: dict[str, float] = {}  # how many it could begin in a second, where that is limited


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node as this one sees it."""

    name: str
    is_this: bool
    state: NodeState
    last_seen_ms: Millis  # since its record was seen to move
    about: NodeRecord


class EngineStatus(msgspec.Struct, frozen=True):
    """How the engine of this node is doing."""

    alive: bool  # every part of it has made a pass lately
    writable: bool  # its last heartbeat was written
    behind_ms: Millis  # how late the most overdue timer is that it has in sight


_decoder = msgspec.json.Decoder(NodeRecord)


def read_record(data: bytes) -> NodeRecord:
    """The record of a node; what cannot be read, another version may have written."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:
        return NodeRecord()
