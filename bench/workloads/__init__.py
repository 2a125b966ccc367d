"""The workloads: each runs, checks what it did, and answers with its figures."""

from collections.abc import Awaitable, Callable

from bench.figure import Figure
from bench.stage import Stage
from bench.workloads import (
    burst,
    creates,
    fired,
    hanging,
    harness,
    memory,
    messages,
    nodes,
    outbox,
    pending,
    rivals,
    starting,
    steady,
)

Workload = Callable[[Stage], Awaitable[list[Figure]]]

# name: (what runs, how often unless told otherwise). Shared machines are noisy, so most repeat; w4
# has turns of its own, w7 and w12 rounds, and w11 starts.
WORKLOADS: dict[str, tuple[Workload, int]] = {
    "w0": (harness.run, 1),
    "w1": (creates.run, 3),
    "w2": (burst.run, 3),
    "w3": (steady.run, 3),
    "w4": (pending.run, 1),
    "w5": (hanging.run, 3),
    "w6": (nodes.run, 3),
    "w7": (fired.run, 1),
    "w8": (messages.run, 3),
    "w9": (outbox.run, 3),
    "w10": (rivals.run, 3),
    "w11": (starting.run, 1),
    "w12": (memory.run, 1),
}
NEED_SHARING = {"w6"}  # those with several nodes on one database
ON_REQUEST = {"w10"}  # those that fetch programs, and so are measured only if they are named
