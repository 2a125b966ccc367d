"""Standstills: moments in which the machine itself did not run, as a watch on each processor saw.

A watch sleeps for a millisecond, again and again, with a priority above all else on the machine.
Whatever is measured does not keep it from its processor, however busy that is. If it wakes up much
too late all the same, nobody ran there: the host gave the processor to somebody else.

It runs as ``python -m bench.standstills PROCESSOR``, prints each standstill as it ends, and goes on
until its standard input ends.
"""

import asyncio
import os
import select
import sys
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

from duetime.benching.process import Process, started
from duetime.benching.receipts import Receipts

READY = "ready"

EVERY = 1_000_000  # nanoseconds that a watch sleeps,
LEAST = 3_000_000  # and how much longer it must take to be one

# A timer is claimed up to 50 ms before it is due, and what a standstill has held up takes a moment
# to be worked off. So whoever was due within so many nanoseconds after its end was touched by it.
AFTER = 60_000_000

Standstill = tuple[int, int]  # from when to when, in nanoseconds since 1970


class Standstills:
    """Those that were seen, on any processor."""

    def __init__(self, seen: Iterable[Standstill] = ()) -> None:
        self.seen = list(seen)
        self.watches: list[Process] = []
        self.why_not = ""  # nothing is watched, if it says something

    def undisturbed(self, receipts: Receipts) -> Receipts:
        """Only those callbacks that no standstill touched, from their claims to their arrival."""
        spans = _joined((begun, ended + AFTER) for begun, ended in self.seen)
        begins = [begun for begun, _ in spans]

        def is_touched(due_ns: int, at_ns: int) -> bool:
            before = bisect_right(begins, at_ns) - 1  # the last that had begun when it arrived
            return before >= 0 and spans[before][1] >= due_ns

        kept = [
            (at_ns, late)
            for at_ns, late in zip(receipts.arrived_ns, receipts.lateness_ms, strict=True)
            if not is_touched(at_ns - round(late * 1e6), at_ns)
        ]
        return Receipts(
            count=len(kept),
            arrived_ns=[at_ns for at_ns, _ in kept],
            lateness_ms=[late for _, late in kept],
        )


def _joined(spans: Iterable[Standstill]) -> list[Standstill]:
    """The same moments, in order, and none of them twice."""
    joined: list[Standstill] = []
    for begun, ended in sorted(spans):
        if joined and begun <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], ended))
        else:
            joined.append((begun, ended))
    return joined


@asynccontextmanager
async def watched() -> AsyncIterator[Standstills]:
    """Watch every processor for as long as the context lasts, if that is allowed."""
    found = Standstills()
    async with AsyncExitStack() as stack:
        for processor in os.sched_getaffinity(0):
            watch = await stack.enter_async_context(
                started(["-m", "bench.standstills", str(processor)], name="a watch")
            )
            said = (await watch.answer()).strip()
            if said != READY:
                found.why_not = said
                break
            found.watches.append(watch)
            reading = asyncio.create_task(_read(watch, found))
            stack.push_async_callback(_gather, watch, reading)
        yield found


async def _read(watch: Process, found: Standstills) -> None:
    while line := await watch.line():
        begun, ended = map(int, line.split())
        found.seen.append((begun, ended))


async def _gather(watch: Process, reading: "asyncio.Task[None]") -> None:
    await watch.stop()  # then there are no more lines
    await reading


def main(processor: int) -> None:
    """Watch a processor."""
    try:
        os.sched_setaffinity(0, {processor})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    except OSError as error:
        print(f"a watch has no priority here: {error.strerror}", flush=True)
        return
    print(READY, flush=True)
    for begun, ended in standstills(time.time_ns, _is_told_within):
        print(begun, ended, flush=True)


def standstills(
    now_ns: Callable[[], int], is_told_within: Callable[[float], bool]
) -> Iterator[Standstill]:
    """Each standstill of this process, as soon as it is over, until it is told to end."""
    pause = EVERY / 1e9
    begun = now_ns()
    while not is_told_within(pause):
        ended = now_ns()
        if ended - begun >= EVERY + LEAST:
            yield begun, ended
        begun = ended


def _is_told_within(seconds: float) -> bool:
    """Sleep, unless the standard input has ended: whoever wanted to know is gone."""
    return bool(select.select([sys.stdin], [], [], seconds)[0])


if __name__ == "__main__":
    main(int(sys.argv[1]))
