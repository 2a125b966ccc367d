"""The bulletin: what a node tells the others of its receivers, with every heartbeat.

That is little: those that nothing is sent to, or just a probe, and the few that most wait for.
"""

from collections.abc import Iterable
from heapq import nlargest

from msgspec.structs import replace

from duetime.engine.gates import Gates
from duetime.engine.targets import Targets
from duetime.nodes import TargetReport

MOST_SHUT = 50  # receivers that are told of, those first that most wait for
BUSIEST = 5  # others, likewise


class Bulletin:
    """Puts together what gates and queues have to tell."""

    def __init__(self, gates: Gates, targets: Targets) -> None:
        self._gates = gates
        self._targets = targets

    def hear(self, told: Iterable[tuple[dict[str, TargetReport], float]]) -> None:
        """Learn from what every other node tells, and told when."""
        self._gates.hear(told)

    def reports(self) -> dict[str, TargetReport]:
        """What is worth telling, by the names that receivers have among all tenants."""
        counts = self._targets.counts()

        def count(name: str) -> tuple[int, int]:
            return counts.get(name, (0, 0))

        shut = {*self._gates.breakers.remarkable()}
        shut |= {name for name in counts if self._gates.is_shut(name)}
        names = nlargest(MOST_SHUT, shut, key=count)
        names += nlargest(BUSIEST, counts.keys() - shut, key=count)
        return {name: self.report(name) for name in names}

    def report(self, name: str) -> TargetReport:
        """What there is to tell of one of them."""
        waiting, under_way = self._targets.count(name)
        report = self._gates.breakers.report(name)
        return replace(report, waiting=waiting, under_way=under_way)
