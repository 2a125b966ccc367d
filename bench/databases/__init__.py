"""The databases to measure on: what a workload knows of them, whichever engine they are of.

``Databases`` is an engine, on the disk that is measured or on a server; ``Database`` is one that
it made fresh for a workload, and that is gone afterwards.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from bench.aims import Aims
from bench.sizes import Sizes
from duetime.timer import Status


class Extent(NamedTuple):
    """How much room a database takes; None where its engine does not tell."""

    table_mb: float
    index_mb: float | None = None
    dead_rows: int | None = None


# The bare driver inserts timers into the database at a URL, so many and so many in a transaction,
# and tells how many that was a second.
Way = Callable[[str, int, int], float]


class Database(Protocol):
    """A fresh database, with the tables of the store in it."""

    @property
    def url(self) -> str:
        """What ``duetime serve`` is told."""
        ...

    async def count(self, *statuses: Status) -> int:
        """How many timers are stored, of these statuses or of all."""
        ...

    async def fill(self, count: int, on_progress: Callable[[int], None]) -> None:
        """Store so many timers that are far from due, and let the disk catch up."""
        ...

    async def extent(self) -> Extent:
        """How much room it takes now."""
        ...


class Databases(Protocol):
    """An engine to measure on."""

    @property
    def kind(self) -> str:
        """Its module here, for the bare driver."""
        ...

    @property
    def aims(self) -> Aims:
        """What should be reached on it."""
        ...

    @property
    def sizes(self) -> Sizes:
        """How much is done on it."""
        ...

    @property
    def num_shards(self) -> int:
        """Over how many shards timers are spread on it, unless somebody says otherwise."""
        ...

    @property
    def bare_ways(self) -> tuple[str, ...]:
        """The ways of its driver to insert many rows; Duetime is measured by the first."""
        ...

    async def describe(self) -> dict[str, str]:
        """What matters for the figures, in a few words."""
        ...

    @property
    def is_metered(self) -> bool:
        """Tell whether what it uses of the processors can be seen."""
        ...

    def cpu_seconds(self) -> float | None:
        """What its processes have used so far; None if it has none, or they cannot be seen."""
        ...

    def fresh(self) -> AbstractAsyncContextManager[Database]:
        """Make a database, and remove it afterwards."""
        ...

    async def settle(self, url: str) -> None:
        """Have what earlier work left to do in a database done now, where it can be asked to."""
        ...
