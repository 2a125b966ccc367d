"""Keeps the machine's processors awake while something is measured.

A processor that has nothing to do halts. A virtual machine then gives it back to its host, and
waits for it at the next wake-up: now and then tens of milliseconds, if the host is busy. That would
say more about the host than about whoever waits for a timer, so Linux is asked for no delay at all.
It takes the wish back by itself as soon as this process is gone, however it ends.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_DELAY = Path("/dev/cpu_dma_latency")  # in microseconds; open for as long as it is wished


@contextmanager
def kept_awake(wish: Path = LONGEST_DELAY) -> Iterator[str]:
    """Keep them awake if that is allowed; the answer tells what idle processors do."""
    try:
        held = os.open(wish, os.O_WRONLY)
    except OSError as error:
        yield f"halt ({wish}: {error.strerror})"
        return
    try:
        os.write(held, bytes(4))
        yield "are kept awake"
    finally:
        os.close(held)
