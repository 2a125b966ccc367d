"""A campaign: a cluster under load, the faults that it is put through, and the verdict."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from duetime.cli.receiver import running_receiver
from duetime.clock import Millis, SystemClock
from tests.cluster.checker import Fault, outstanding, violations
from tests.cluster.history import History, Verdict
from tests.cluster.load import RATE, Load, look, read_logs
from tests.cluster.nodes import Cluster, Node, running_cluster
from tests.waiting import eventually, until

# So that faults come in the middle of deliveries too.
RECEIVER_TAKES: Millis = 150

_clock = SystemClock()


class Campaign:
    """What a test of faults works with."""

    def __init__(self, cluster: Cluster, load: Load, history: History) -> None:
        self.cluster = cluster
        self.load = load
        self.history = history
        self.faults: list[Fault] = []

    @property
    def nodes(self) -> list[Node]:
        return self.cluster.nodes

    def node(self, turn: int) -> Node:
        """The node whose turn it is."""
        return self.nodes[turn % len(self.nodes)]

    @contextmanager
    def fault(self, name: str, *nodes: Node) -> Iterator[None]:
        """Note down that these nodes, or all of them if none is named, are being hit."""
        pids = frozenset(node.pid for node in nodes) or None
        start = _clock.now()
        yield
        self.faults.append(Fault(name, start, _clock.now(), pids))

    async def busy(self, requests: int = 60) -> None:
        """Wait until the load has got that many more answers."""
        enough = len(self.history.asks) + requests
        await until(lambda: len(self.history.asks) >= enough, f"{requests} more requests")

    async def recovered(self) -> None:
        """Wait until all nodes are ready, and all that is outstanding by now has arrived."""
        await self.cluster.ready()
        waited_for = outstanding(self.history)
        await until(
            lambda: not waited_for & outstanding(self.history),
            "what the fault left outstanding",
            every=0.1,
        )

    @property
    def retaken(self) -> int:
        """How many arrivals were of an attempt after one that was lost."""
        return sum(delivery.attempt > 1 for delivery in self.history.deliveries)

    @property
    def doubtful(self) -> int:
        """How many requests had no answer, or one that leaves open what was done."""
        return sum(ask.verdict is Verdict.DOUBTFUL for ask in self.history.asks)

    @property
    def failed(self) -> int:
        """How many requests were not done, or not for sure, because the database failed."""
        return sum(
            ask.verdict in {Verdict.DOUBTFUL, Verdict.UNWRITTEN} for ask in self.history.asks
        )

    @property
    def touched(self) -> int:
        """How many requests were under way when a fault began; a driver may see them through."""
        return sum(
            ask.began <= fault.start <= ask.answered
            for fault in self.faults
            for ask in self.history.asks
        )

    async def settled(self) -> None:
        """Wait until everything that must arrive has, and everything is written down.

        It does not wait for ever, and leaves it to the checker to say what is missing.
        """
        history, node = self.history, self.nodes[0]
        await self.cluster.ready()

        async def all_ended() -> bool:
            await look(node, history)
            return not {"pending", "executing"} & set(history.ends.values())

        await look(node, history)
        with suppress(AssertionError):
            await until(lambda: not outstanding(history), "arrivals", every=0.1)
            await eventually(all_ended, "outcomes", every=0.1)
        await read_logs(node, history)

    def violations(self, *, faults: list[Fault] | None = None) -> list[str]:
        """What went wrong; faults that were noted excuse what they may."""
        return violations(self.history, self.faults if faults is None else faults)


@asynccontextmanager
async def under_load(
    folder: Path,
    url: str,
    *,
    seed: int,
    count: int = 3,
    is_proxied: bool = False,
    rate: float = RATE,
    **settings: str,
) -> AsyncIterator[Campaign]:
    """A cluster of nodes under load; on the way out the load ends and all is waited for."""
    history = History()
    async with (
        running_receiver("127.0.0.1", 0, history.note_arrival, delay=RECEIVER_TAKES) as port,
        running_cluster(folder, url, count=count, is_proxied=is_proxied, **settings) as cluster,
    ):
        load = Load(cluster, history, f"http://127.0.0.1:{port}/hook", seed, rate)
        campaign = Campaign(cluster, load, history)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(load.run())
                try:
                    await campaign.busy()
                    yield campaign
                finally:
                    load.end()
            await campaign.settled()
        except BaseException as error:
            error.add_note(f"the history and the logs of the nodes are in {folder}")
            raise
        finally:
            history.write(folder / "history.jsonl")
