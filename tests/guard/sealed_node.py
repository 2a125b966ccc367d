"""A sealed node: all of Duetime, as it is put together to be run, without a socket.

Its clock stands still and its parts are moved by hand, each when the others have nothing to do. So
what it does is the same every time, however long a thread, a disk or a database takes.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp

from duetime.api.app import create_app
from duetime.auditing import Audit
from duetime.delivery.egress import Egress
from duetime.delivery.http import HttpSender
from duetime.delivery.nats import NatsSender
from duetime.delivery.routing import RoutingSender
from duetime.engine import Engine
from duetime.layout import Layout, agree_on_shards
from duetime.service import Service
from duetime.stores import Store
from duetime.tenancy.meter import Meter
from duetime.tenancy.rules import Rules
from duetime.tenancy.terms import GroupTerms
from duetime.tenancy.wallet import Wallet
from duetime.testing import FakeClock
from duetime.vault import Vault
from tests.guard.wire import HttpWire, NatsWire

KEY = "a-key-for-the-guard-of-the-work-of-duetime"
SECRET = bytes(range(32))
MOST_PASSES = 1_000  # for a burst: many times what it takes

CALLBACKS = {
    "http": {"type": "http", "url": "http://receiver.example/hook"},
    "nats": {"type": "nats", "topic": "orders.expired"},
}


class SealedNode:
    """A node, and the other ends of its wires."""

    def __init__(
        self, app: ASGIApp, service: Service, engine: Engine, clock: FakeClock, wires: Any
    ) -> None:
        self.service = service
        self.engine = engine
        self.clock = clock
        self._app = app
        self._wires = wires

    @property
    def arrived(self) -> int:
        """How many callbacks have come to their receivers."""
        return sum(wire.arrived for wire in self._wires)

    async def post(self, path: str, body: bytes) -> None:
        """Make a request, as a server would, and see that it is done."""
        bodies = [body]
        heads: list[Any] = []

        async def receive() -> dict[str, Any]:
            if bodies:
                return {"type": "http.request", "body": bodies.pop(), "more_body": False}
            return await asyncio.get_running_loop().create_future()

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                heads.append(message["status"])

        headers = {"host": "127.0.0.1:8080", "x-api-key": KEY, "content-length": str(len(body))}
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 40_000),
        }
        await self._app(scope, receive, send)
        assert heads in ([201], [200]), heads

    async def create(self, count: int, *, delay: str = "1h", callback: str = "http") -> None:
        """Create timers in one batch."""
        timers = b",".join([body(delay, callback)] * count)
        await self.post("/timers/batch", b'{"timers": [' + timers + b"]}")

    async def become_due(self, count: int, callback: str = "http") -> None:
        """Have so many timers that are due, and that the engine knows of."""
        await self.create(count, delay="1s", callback=callback)
        await self.service.audit.close()  # which gathers its lines otherwise
        await self.engine.members.step()
        await self.engine.reader.step()
        self.clock.advance(1_000)

    async def fire(self, count: int) -> None:
        """Let the engine claim, send and write down what is due, which are so many."""
        until = self.arrived + count
        for _ in range(MOST_PASSES):
            if self.arrived == until and not len(self.engine.committer):
                return
            await self.engine.dispatcher.step()
            await self._quiet()
            self.clock.advance(5)
            await self.engine.committer.gather()
        raise AssertionError(f"{until - self.arrived} of {count} timers did not arrive")

    async def _quiet(self) -> None:
        """Wait until nothing more arrives: every task has gone as far as it can."""
        seen = -1
        while self.arrived != seen:
            seen = self.arrived
            for _ in range(10):
                await asyncio.sleep(0)


def body(delay: str = "1h", callback: str = "http") -> bytes:
    """The request for a timer like many are."""
    what = {**CALLBACKS[callback], "payload": {"text": "x" * 100}}
    return json.dumps({"delay": delay, "callback": what, "name": "n", "tags": ["a", "b"]}).encode()


@asynccontextmanager
async def sealed(store: Store) -> AsyncIterator[SealedNode]:
    """A node on a store that is ready for use; it is not closed with it."""
    clock, vault, nats = FakeClock(), Vault(), NatsWire()
    rules = Rules(store, clock)
    terms = GroupTerms(rules, vault, clock, installation=(SECRET,))
    http = HttpSender(
        clock,
        Egress.parse(""),
        credentials=Wallet(rules, vault),
        terms=terms,
        lookup=lambda _host: ["93.184.216.34"],
    )
    connections = http._connections
    wire = HttpWire(connections._on_lost)
    connections._opening = wire
    sender = RoutingSender(http, NatsSender(nats, clock, terms=terms))
    meter = Meter(rules, store, clock)
    engine = Engine("guard", store, sender, clock, rules=rules, meter=meter)
    await engine.join()
    service = Service(
        store,
        sender,
        clock,
        engine=engine,
        layout=Layout(await agree_on_shards(store, None)),
        rules=rules,
        meter=meter,
        audit=Audit(store, clock),
        vault=vault,
    )
    service.add_chores(engine)
    try:
        yield SealedNode(create_app(service, KEY), service, engine, clock, (wire, nats))
    finally:
        await service.close()
        await engine.leave_no_trace()
        await sender.close()
        await asyncio.sleep(0)  # so that connections hear of it
        wire.close()
