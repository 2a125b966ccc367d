"""A cluster: several nodes on one database, each with a proxy of its own before it if wanted."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.cluster.proxy import Proxy, proxied
from tests.servers.processes import freeze
from tests.system.service import ServiceProcess
from tests.waiting import eventually

CLAIM_TTL = 2.0  # seconds
SETTINGS = {
    "CLAIM_TTL": f"{CLAIM_TTL:.0f}s",
    "POLL_INTERVAL": "200ms",
    # A process that is killed loses nothing that it handed to the system: only a power cut could.
    "SQLITE_SYNCHRONOUS": "normal",
    "LOG_LEVEL": "info",
}


class Node(ServiceProcess):
    """One node of a cluster, which knows whether it was frozen."""

    def __init__(self, folder: Path, url: str, proxy: Proxy | None = None, **settings: str) -> None:
        super().__init__(folder, DATABASE_URL=url, **SETTINGS | settings)
        self.proxy = proxy
        self.is_frozen = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_answering(self) -> bool:
        """Tell whether a request has a chance of being answered."""
        return self.is_running and not self.is_frozen

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def is_ready(self) -> bool:
        return await self._is_ready()

    def freeze(self) -> None:
        """Stop it in its tracks, as a machine that hangs would: SIGSTOP."""
        self.is_frozen = True
        freeze(self.pid)

    def thaw(self) -> None:
        """Let it go on where it was: SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)
        self.is_frozen = False

    async def end_if_running(self) -> None:
        self.is_frozen = False
        await super().end_if_running()


class Cluster:
    """Several nodes."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes

    @property
    def pids(self) -> frozenset[int]:
        return frozenset(node.pid for node in self.nodes if node.is_running)

    async def start(self) -> None:
        """Start all of them at once, and return once all are ready."""
        await asyncio.gather(*(node.start() for node in self.nodes))

    async def kill(self) -> None:
        """End all of them at once."""
        await asyncio.gather(*(node.kill() for node in self.nodes))

    async def stop(self) -> list[int]:
        """Ask all of them to stop, and return their exit codes."""
        return await asyncio.gather(*(node.stop() for node in self.nodes))

    async def ready(self) -> None:
        """Wait until every node says that it can do its work."""
        for node in self.nodes:
            await eventually(node.is_ready, f"{node.log} to be ready")


@asynccontextmanager
async def running_cluster(
    folder: Path, url: str, *, count: int = 3, is_proxied: bool = False, **settings: str
) -> AsyncIterator[Cluster]:
    """A cluster that is ready; it must stop cleanly unless the test failed."""
    async with AsyncExitStack() as stack:
        nodes = []
        for _ in range(count):
            proxy, reached_at = None, url
            if is_proxied:
                proxy, reached_at = await stack.enter_async_context(proxied(url))
            nodes.append(Node(folder, reached_at, proxy, **settings))
            stack.push_async_callback(nodes[-1].end_if_running)
        cluster = Cluster(nodes)
        await nodes[0].start()  # the first one makes the schema
        await asyncio.gather(*(node.start() for node in nodes[1:]))
        yield cluster
        assert await cluster.stop() == [0] * count
