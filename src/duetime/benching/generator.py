"""The load generator as a process: it carries out the orders that come in, one after the other.

All requests of an order are built before it says that it is ready, and none is sent before it is
told to go, so that nothing of that is measured.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence

import msgspec

from duetime.benching.load import flood, pace
from duetime.benching.orders import READY, Done, Failed, Order, Sent

TELL_EVERY = 0.2  # seconds

_read = msgspec.json.Decoder(Order).decode


def serve(runner: asyncio.Runner) -> None:
    """Carry out orders until there are no more."""
    for line in sys.stdin.buffer:
        order = _read(line)
        load = order.requests()
        _say(READY.encode())
        if not sys.stdin.buffer.readline():
            return  # whoever gave the order is gone
        _say(msgspec.json.encode(runner.run(_carried_out(order, load))))


async def _carried_out(order: Order, load: Sequence[bytes]) -> Done | Failed:
    telling = _telling()
    try:
        if order.per_second is None:
            done = await flood(order.port, load, order.connections, telling)
        else:
            rate, connections = order.per_second, order.connections
            done = await pace([order.port], load, rate, connections, telling)
    except OSError as error:
        return Failed(str(error) or type(error).__name__)
    statuses = {status.decode(): count for status, count in done.statuses.items()}
    return Done(seconds=done.seconds, statuses=statuses)


def _telling() -> Callable[[int], None]:
    """What tells how far it has come, every now and then."""
    told_at = time.monotonic()

    def tell(count: int) -> None:
        nonlocal told_at
        now = time.monotonic()
        if now - told_at >= TELL_EVERY:
            told_at = now
            _say(msgspec.json.encode(Sent(count)))

    return tell


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
