"""What crowds a node: timers that weigh a lot, and a receiver that never answers."""

import asyncio

import msgspec

from duetime.engine.targets import Targets
from duetime.engine.throttles import Throttles
from duetime.testing import FakeClock
from duetime.timer import HttpCallback
from tests.engine.conftest import Node
from tests.factories import make_spec, make_timer

HANGING = {"type": "http", "url": "https://hanging.example/"}


class HangingSender:
    """Makes one receiver hang for ever, and lets the others answer."""

    def __init__(self, node: Node) -> None:
        send, never = node.sender.send, asyncio.Event()

        async def hang(timer, is_mine):
            if timer.spec.callback.url == HANGING["url"]:
                await never.wait()
            return await send(timer, is_mine)

        node.sender.send = hang


def make_targets(**options):
    """Targets of a node that nobody has set limits on."""
    return Targets(throttles=Throttles("node-1", FakeClock()), **options)


def heavy(kilobytes):
    payload = msgspec.Raw(b'"' + b"x" * 1024 * kilobytes + b'"')
    return make_timer(
        spec=make_spec(callback=HttpCallback(url="http://a.example/", payload=payload))
    )
