"""Sizes: how much each workload does."""

import msgspec


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are for SQLite: a server may well hold more, and takes longer to be filled."""

    creates: int = 10_000
    batched: int = 30_000
    burst: int = 10_000
    per_second: int = 200
    seconds: int = 30
    pending: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    turns: int = 9  # of each of these,
    turn_seconds: int = 15  # so long
    idle_seconds: int = 20
    fired: int = 1_000_000
    rounds: int = 16  # in so many parts,
    round_seconds: int = 30  # each at least so long
    probe_seconds: int = 2
    retention_seconds: int = 20
    start_pending: int = 1_000_000
    starts: int = 7
    crowd: int = 100_000


QUICK = Sizes(
    creates=2_000,
    batched=5_000,
    burst=2_000,
    seconds=5,
    pending=(1_000, 10_000),
    turns=1,
    turn_seconds=5,
    idle_seconds=5,
    fired=8_000,
    rounds=4,
    round_seconds=0,
    probe_seconds=1,
    retention_seconds=1,
    start_pending=10_000,
    starts=2,
    crowd=5_000,
)
