"""The interpreter, set up for what a node does."""

import asyncio
import gc
import sys


def tune() -> None:
    """Spare what a node has no use for; called once, when all is imported."""
    # Timers are short-lived and have no cycles: looking for some after every few hundred of them
    # is wasted.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    # The thread that writes needs Python's lock a few times for every commit, and then waits for it
    # up to this long, in seconds, while the event loop is busy.
    sys.setswitchinterval(0.0001)


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """The faster event loop, where there is one."""
    try:
        import uvloop  # noqa: PLC0415 - it does not exist for every platform
    except ImportError:
        return None
    return uvloop.Loop
