"""Limits: how many callbacks may be made at once, and how many per second."""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The most of each, in the whole cluster; None: as many as the service makes."""

    concurrency: int | None = None  # callbacks under way at once
    per_second: float | None = None  # callbacks begun
    burst: int | None = None  # of those, at once after a rest; None: as many as in a second


BOUNDLESS = Limits()
