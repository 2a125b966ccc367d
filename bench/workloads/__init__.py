"""The workloads: each runs once, checks what it did, and answers with its figures."""

from collections.abc import Awaitable, Callable

from bench.figure import Figure
from bench.stage import Stage
from bench.workloads import burst, creates, harness, pending, steady

Workload = Callable[[Stage], Awaitable[list[Figure]]]

# name: (what runs, how often unless told otherwise). The short ones are noisy, so they repeat.
WORKLOADS: dict[str, tuple[Workload, int]] = {
    "w0": (harness.run, 1),
    "w1": (creates.run, 3),
    "w2": (burst.run, 3),
    "w3": (steady.run, 1),
    "w4": (pending.run, 1),
}
