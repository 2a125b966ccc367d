"""The aims: what each store should reach of its ceilings."""

import msgspec


class Aims(msgspec.Struct, frozen=True, kw_only=True):
    """Ratios to the ceilings; None where none was set."""

    creates: float | None = None
    batches: float
    burst: float | None = None
