"""A gauge tells how busy a node, its machine and the benchmark itself were between two moments."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from duetime.benching import usage


class Busy(msgspec.Struct, frozen=True, kw_only=True):
    """How busy all of them were."""

    seconds: float
    node: float  # cores that the node used, with its workers
    tools: float  # cores that the busiest process of the benchmark itself used
    machine: float  # the share of all processors that was busy
    throttled: float = 0.0  # the share of the time in which the container was held back

    @property
    def node_seconds(self) -> float:
        """The processor time of the node."""
        return self.node * self.seconds


class _Reading(NamedTuple):
    at: float
    node: float
    tools: tuple[float, ...]
    busy: float
    total: float
    throttled: float


class Gauge:
    """Looks at processes by their ids; begins to count when it is made."""

    def __init__(self, node: int, tools: Sequence[int]) -> None:
        self._node = node
        self._tools = tools
        self._before = self._look()

    def read(self) -> Busy | None:
        """How busy they were since; None where the system does not tell."""
        before, now = self._before, self._look()
        if before is None or now is None or now.at <= before.at:
            return None
        seconds = now.at - before.at
        tools = (n - b for n, b in zip(now.tools, before.tools, strict=True))
        total = now.total - before.total
        return Busy(
            seconds=seconds,
            node=(now.node - before.node) / seconds,
            tools=max(tools, default=0.0) / seconds,
            machine=(now.busy - before.busy) / total if total > 0 else 0.0,
            throttled=(now.throttled - before.throttled) / seconds,
        )

    def _look(self) -> _Reading | None:
        if not usage.is_known():
            return None
        return _Reading(
            time.monotonic(),
            usage.tree_cpu_seconds(self._node),
            tuple(map(usage.tree_cpu_seconds, self._tools)),
            *usage.machine_seconds(),
            usage.throttled_seconds(),
        )
