"""What the use cases see of the engine of their node, which they may have or not."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from duetime.clock import Millis
from duetime.failures import Failures
from duetime.nodes import EngineStatus, NodeStatus, TargetReport
from duetime.tenancy.target_status import Told
from duetime.timer import Timer


class EngineView(Protocol):
    """What the use cases need of the engine."""

    def notice(self, timer: Timer) -> None:
        """Take note of a timer that was just written, so that it need not be found by a poll."""

    def status(self) -> EngineStatus:
        """How it is doing."""

    def nodes(self) -> list[NodeStatus]:
        """Every node that is known."""

    def targets_here(self) -> dict[str, TargetReport]:
        """What this node has to tell of its receivers, by their names among all tenants."""

    def target_here(self, name: str) -> TargetReport:
        """What this node has to tell of one of them."""

    def shares(self) -> dict[str, list[int]]:
        """Which shards fall to whom, as this node sees it."""

    def lag(self) -> Millis:
        """How late it is by its own fault; see the brake."""


class Chores(Protocol):
    """What runs a step over and over."""

    failures: Failures

    def add_chore(self, name: str, step: Callable[[], Awaitable[float]]) -> Callable[[], None]:
        """Do this from now on; the answer wakes it."""


def told_of_targets(engine: EngineView | None, name: str | None) -> list[Told]:
    """What nodes tell of all targets, or what this one tells of the one that is asked for."""
    if engine is None:
        return []
    others = [
        Told(node.about.targets, node.last_seen_ms)
        for node in engine.nodes()
        if not node.is_this and node.state in {"alive", "joining"}
    ]
    if name is None:
        return [Told(engine.targets_here(), 0), *others]
    return [Told({name: engine.target_here(name)}, 0), *others]
