"""The aims: what each store should reach of its ceilings."""

import msgspec


class Aims(msgspec.Struct, frozen=True, kw_only=True):
    """Ratios to the ceilings; None where none was set."""

    creates: float | None = None
    batches: float
    burst: float | None = None


AIMS = {
    "sqlite": Aims(creates=0.55, batches=0.45, burst=0.45),
    "cassandra": Aims(batches=0.5),
    "postgres": Aims(batches=0.5, burst=0.5),
    "mongodb": Aims(batches=0.5),
    "dynamodb": Aims(batches=0.5),
    "mysql": Aims(batches=0.5, burst=0.5),
}
