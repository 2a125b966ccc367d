"""A meter tells what Duetime and its database have used of the processors since it was made."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bench.figure import Aim, Figure
from duetime.benching.process import Process


class Used(NamedTuple):
    """Processor time: of the nodes, and of the database's own processes if they can be seen."""

    nodes: float
    database: float | None
    is_whole: bool  # nothing that the database uses is missing

    @property
    def total(self) -> float:
        """All that is known."""
        return self.nodes + (self.database or 0.0)

    def scaled(self, factor: float) -> "Used":
        """The same in another unit."""
        database = None if self.database is None else self.database * factor
        return Used(self.nodes * factor, database, self.is_whole)


class Metered(Protocol):
    """A database's server, as far as a meter looks at it."""

    @property
    def is_metered(self) -> bool:
        """Tell whether what it uses of the processors can be seen."""
        ...

    def cpu_seconds(self) -> float | None:
        """What its processes have used so far; None if it has none, or they cannot be seen."""
        ...


class Meter:
    """Begins to count when it is made."""

    def __init__(self, databases: Metered, nodes: Sequence[Process]) -> None:
        self._databases = databases
        self._nodes = nodes
        self._before = self._now()

    def used(self) -> Used:
        """What was used since."""
        now, before = self._now(), self._before
        database = (
            None
            if now.database is None or before.database is None
            else now.database - before.database
        )
        return Used(now.nodes - before.nodes, database, now.is_whole)

    def _now(self) -> Used:
        nodes = sum(node.cpu_seconds() for node in self._nodes)
        return Used(nodes, self._databases.cpu_seconds(), self._databases.is_metered)


def figures(
    workload: str,
    what: str,
    unit: str,
    used: Used,
    *,
    least: Used | None = None,
    least_is: str = "",
    aim: Aim | None = None,
    rival: str = "",
    turns: Sequence[Used] = (),
) -> list[Figure]:
    """All that was used, and the database's part of it where that can be told apart.

    If ``used`` is one of several turns, all of them are kept as samples.
    """
    whole = "included" if used.is_whole else "not included"
    made = [
        Figure(
            workload=workload,
            what=f"{what}, database {whole}",
            unit=unit,
            measured=used.total,
            ceiling=None if least is None else least.total,
            ceiling_is=least_is,
            aim=aim,
            rival=rival,
            samples=[turn.total for turn in turns],
        )
    ]
    if used.database is not None:
        made.append(
            Figure(
                workload=workload,
                what=f"{what}, the database's part",
                unit=unit,
                measured=used.database,
                ceiling=None if least is None else least.database,
                ceiling_is=least_is,
            )
        )
    return made
