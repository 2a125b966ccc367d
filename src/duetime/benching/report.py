"""The report of a benchmark: all its figures, for people, for machines and for the picture."""

import msgspec

from duetime.benching.histogram import Bucket
from duetime.benching.limit import Step
from duetime.benching.verdict import Verdict

BURST_EVERY = 50  # milliseconds that are counted together


class Creates(msgspec.Struct, frozen=True, kw_only=True):
    """Timers that were created as fast as it goes."""

    timers: int
    per_second: float


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """Timers that were all due at one instant."""

    timers: int
    per_second: float  # callbacks, from the first to the last
    first_ms: float  # after that instant
    last_ms: float
    arrived: list[int]  # in each 50 milliseconds after it
    cpu_ms: float | None = None  # of the node, for each


class Steady(msgspec.Struct, frozen=True, kw_only=True):
    """Timers that were created and came due at one rate; lateness in milliseconds."""

    rate: int
    timers: int
    p50: float
    p90: float
    p99: float
    max: float
    lateness: list[Bucket]
    cpu_ms: float | None = None  # of the node, for each: created and fired


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything."""

    version: str
    machine: dict[str, str]
    store: str
    workers: int
    creates: Creates
    batches: Creates
    burst: Burst
    steady: Steady
    limit: Verdict
    steps: list[Step]
    timers: int  # that were created and fired, in all
    # Of the time in which a processor was wanted, the share that other guests of the host had.
    taken: float | None = None
    repeats: int = 0  # further attempts of timers that had arrived: the node had stalled
