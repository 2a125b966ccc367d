"""Meters of several nodes, which tell each other what they know."""

from duetime.errors import TooManyRequests
from duetime.nodes import NodeRecord
from duetime.stores.memory import MemoryStore
from duetime.tenancy.meter import Meter
from duetime.tenancy.quotas import Quotas
from duetime.tenancy.rules import Rules
from duetime.testing import FakeClock, FlakyStore
from tests.factories import make_timer

BEAT = 2_000


class Cluster:
    """Some meters whose nodes tell each other with every heartbeat."""

    def __init__(self, nodes: int, **quotas: float) -> None:
        self.clock = FakeClock()
        self.store = FlakyStore(MemoryStore())
        self.meters = {}
        for number in range(nodes):
            self.add(f"n{number}", **quotas)
        self.beat()

    def add(self, name: str, **quotas: float) -> Meter:
        """One more node, which knows nothing yet."""
        rules = Rules(self.store, self.clock)
        rules.limited = {"default": Quotas(**quotas)}
        self.meters[name] = meter = Meter(rules, self.store, self.clock)
        return meter

    def beat(self) -> None:
        """A heartbeat of each node, seen by all others."""
        told = {
            name: NodeRecord(demand=meter.demand(), growth=meter.growth())
            for name, meter in self.meters.items()
        }
        for name, meter in self.meters.items():
            meter.hear({other: record for other, record in told.items() if other != name})

    def believed(self, node: str, name: str = "default") -> int:
        """How many timers a node takes to be waiting."""
        waiting = self.meters[node]._waiting
        return waiting._now(name, waiting._counted[name])

    async def admitted(self, name: str, asked: int) -> int:
        """How many of so many are let in at a node."""
        count = 0
        for _ in range(asked):
            timer = make_timer()
            try:
                await self.meters[name].admit(timer)
            except TooManyRequests:
                continue
            self.meters[name].made(timer)
            count += 1
        return count

    async def load(self, seconds: int, **per_second: int) -> int:
        """How many are let in while the nodes are asked for so many per second each."""
        count = 0
        for tenth in range(seconds * 10):
            for name, rate in per_second.items():
                count += await self.admitted(name, rate // 10)
            self.clock.advance(100)
            if tenth % (BEAT // 100) == 0:
                self.beat()
        return count
