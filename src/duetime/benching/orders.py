"""Orders to the load generator, and what it answers: a line of JSON each."""

from collections.abc import Sequence

import msgspec

from duetime.benching import requests
from duetime.clock import Millis

READY = "ready"  # the generator's answer when all requests are built
GO = b"go"  # what it then waits for


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Timers to be created: so many, how, and when they are due."""

    port: int  # of the node
    sink: int  # the receiver's port
    key: str
    count: int
    due_at: Millis | None = None  # all of them at one instant,
    delay: Millis = 0  # or each so long after it was created
    batch: int = 1  # so many in a request
    connections: int = 64
    per_second: int | None = None  # None: as fast as they are answered

    def requests(self) -> Sequence[bytes]:
        """All that is to be sent."""
        if self.due_at is None:
            bodies = [requests.soon(self.sink, self.delay, each) for each in range(self.count)]
        else:
            bodies = [requests.body(self.sink, self.due_at, each) for each in range(self.count)]
        if self.batch == 1:
            return [requests.create(each, self.key) for each in bodies]
        return requests.batches(bodies, self.batch, self.key)


class Sent(msgspec.Struct, frozen=True, tag="sent"):
    """So many requests were answered so far."""

    count: int


class Done(msgspec.Struct, frozen=True, tag="done", kw_only=True):
    """What came of an order."""

    seconds: float
    statuses: dict[str, int]  # how many requests were answered by each


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The order was not carried out."""

    why: str
