"""Measuring: a node is put under one load after the other, and each is held to the promises."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from duetime.benching import requests
from duetime.benching.failures import BenchFailed, BrokenPromise
from duetime.benching.gauge import Busy, Gauge
from duetime.benching.histogram import histogram, rates
from duetime.benching.limit import Found, Step, find_limit
from duetime.benching.orders import Done, Order
from duetime.benching.process import Process
from duetime.benching.receipts import Receipts
from duetime.benching.report import BURST_EVERY, Burst, Creates, Steady
from duetime.benching.servers import Generator, Sink

CONNECTIONS = 64
BATCH = 1_000
BATCH_CONNECTIONS = 4
WARM = 500  # timers that a node is warmed up with
AHEAD = 500  # milliseconds from the create to the due instant, in steady streams of one node
SETTLE = 0.3  # seconds in which a duplicate would still turn up
STANDSTILL = 30.0  # seconds without any callback, after which the rest is lost
LOOK_EVERY = 0.1
BURST_TRIES = 4


class Sizes(NamedTuple):
    """How much is done."""

    timers: int = 10_000  # for creates, and in the burst
    rate: int = 200  # timers a second of the steady part, at which the search begins
    seconds: int = 10
    step_seconds: int = 4  # of each step of the search
    precision: float = 0.1
    most: int = 100_000  # timers a second that are tried


QUICK = Sizes(timers=2_000, seconds=5, step_seconds=2, precision=0.25)


class Onlooker(Protocol):
    """Who is told how it goes."""

    def tell(self, text: str) -> None:
        """How it stands; it may come often."""

    def say(self, sentence: str) -> None:
        """Something begins."""


class Bench:
    """A node, a receiver and a load generator."""

    def __init__(
        self,
        node: Process,
        receiver: Sink,
        generator: Generator,
        *,
        key: str,
        sizes: Sizes,
        onlooker: Onlooker,
        ahead: int = AHEAD,
    ) -> None:
        self._node = node
        self._receiver = receiver
        self._generator = generator
        self._key = key
        self._sizes = sizes
        self._onlooker = onlooker
        self._ahead = ahead
        self.waiting = 0  # timers that are far from due, and must all be there in the end
        self.fired = 0
        self.repeats = 0

    async def creates(self) -> Creates:
        """Creates a second, each in a request of its own."""
        self._onlooker.say(f"creating {self._sizes.timers:,} timers one by one")
        far = requests.now_ms() + requests.FAR
        await self._created(self._order(min(WARM, self._sizes.timers), due_at=far))
        return await self._created(self._order(self._sizes.timers, due_at=far))

    async def batches(self) -> Creates:
        """Creates a second, a thousand in a request."""
        self._onlooker.say(f"creating {self._sizes.timers:,} timers in batches of {BATCH:,}")
        return await self._created(self._batches(requests.now_ms() + requests.FAR))

    async def burst(self, creates_per_second: float) -> Burst:
        """Callbacks a second of timers that are all due at one instant."""
        count = self._sizes.timers
        lead = 1_000 + int(2_000 * count / creates_per_second)  # milliseconds to create them in
        self._onlooker.say(f"firing {count:,} timers that are due at one instant")
        for _ in range(BURST_TRIES):
            await self._receiver.forget()
            due = requests.now_ms() + lead + count // 20  # in which the requests are built
            done = await self._sent(self._batches(due))
            _check(done, "200")
            is_in_time = requests.now_ms() < due
            gauge = self._gauge()
            receipts = await self._arrived(count, count, lead / 1000)
            busy = gauge.read()
            if is_in_time:
                return Burst(
                    timers=count,
                    per_second=receipts.per_second,
                    first_ms=min(receipts.lateness_ms),
                    last_ms=max(receipts.lateness_ms),
                    arrived=rates(receipts.lateness_ms, BURST_EVERY),
                    cpu_ms=_cpu_ms(busy, count),
                )
            lead *= 4
        raise BenchFailed(f"{count:,} timers could not be created within {lead // 4000} s")

    async def steady(self) -> Steady:
        """How late timers are at a rate that should be easy."""
        rate, count = self._sizes.rate, self._sizes.rate * self._sizes.seconds
        self._onlooker.say(f"{rate:,} timers a second for {self._sizes.seconds} s")
        await self._receiver.forget()
        gauge = self._gauge()
        done = await self._sent(self._order(count, delay=self._ahead, per_second=rate))
        _check(done, "201")
        receipts = await self._arrived(count, count, self._ahead / 1000)
        busy = gauge.read()
        return Steady(
            rate=rate,
            timers=count,
            p50=receipts.percentile(0.5),
            p90=receipts.percentile(0.9),
            p99=receipts.percentile(0.99),
            max=max(receipts.lateness_ms),
            lateness=histogram(receipts.lateness_ms),
            cpu_ms=_cpu_ms(busy, count),
        )

    async def limit(self) -> Found:
        """Where the limit is."""
        sizes = self._sizes
        self._onlooker.say("looking for the limit: more and more timers a second")
        return await find_limit(self._step, sizes.rate, sizes.most, sizes.precision)

    async def _step(self, rate: int) -> Step:
        seconds = self._sizes.step_seconds + self._ahead / 1000  # before, none is due yet
        count = int(rate * seconds)
        await self._receiver.forget()
        await self._generator.prepare(self._order(count, delay=self._ahead, per_second=rate))
        telling = self._telling(f"{rate:,} a second: created", count)
        sending = asyncio.create_task(self._generator.go(telling))
        try:
            # Only while timers are created and fired at once does it tell what both take together.
            await asyncio.wait({sending}, timeout=self._ahead / 1000)
            gauge = self._gauge()
            done = await sending
            busy = gauge.read()
        finally:
            sending.cancel()
        made = done.statuses.get("201", 0)
        receipts = await self._arrived(made, count, self._ahead / 1000)
        step = Step(
            rate=rate,
            seconds=count / rate,
            took=done.seconds,
            p50=receipts.percentile(0.5),
            p99=receipts.percentile(0.99),
            refused=count - made,
            busy=busy,
        )
        outcome = f"p99 {step.p99:,.1f} ms" if step.holds else step.why_not
        self._onlooker.say(f"  {rate:,} a second: {'held' if step.holds else 'no'}, {outcome}")
        return step

    async def _created(self, order: Order) -> Creates:
        """Create timers that are far from due."""
        done = await self._sent(order)
        _check(done, "201" if order.batch == 1 else "200")
        self.waiting += order.count
        return Creates(timers=order.count, per_second=order.count / done.seconds)

    async def _sent(self, order: Order) -> Done:
        await self._generator.prepare(order)
        return await self._generator.go(self._telling("created", order.count, order.batch))

    async def _arrived(self, least: int, most: int, within: float) -> Receipts:
        """Wait for as many callbacks as were acknowledged, and check that promises were kept.

        A create that was refused may have been stored all the same; more than were asked for
        cannot be. What comes first has so many seconds longer than what follows.
        """
        seen, give_up_at = 0, time.monotonic() + within + STANDSTILL
        while (count := await self._receiver.count()) < least and time.monotonic() < give_up_at:
            self._node.check()
            if count > seen:
                seen, give_up_at = count, time.monotonic() + STANDSTILL
                self._onlooker.tell(f"fired {count:,} of {most:,}")
            await asyncio.sleep(LOOK_EVERY)
        await asyncio.sleep(SETTLE)
        receipts = await self._receiver.receipts()
        expected = min(max(least, receipts.distinct), most)
        if broken := receipts.broken(expected):
            raise BrokenPromise(", ".join(broken))
        self.fired += receipts.distinct
        self.repeats += receipts.repeats
        return receipts

    def _order(
        self,
        count: int,
        *,
        due_at: int | None = None,
        delay: int = 0,
        per_second: int | None = None,
    ) -> Order:
        return Order(
            port=self._node.port,
            sink=self._receiver.port,
            key=self._key,
            count=count,
            due_at=due_at,
            delay=delay,
            connections=CONNECTIONS,
            per_second=per_second,
        )

    def _batches(self, due_at: int) -> Order:
        return Order(
            port=self._node.port,
            sink=self._receiver.port,
            key=self._key,
            count=self._sizes.timers,
            due_at=due_at,
            batch=BATCH,
            connections=BATCH_CONNECTIONS,
        )

    def _telling(self, task: str, of: int, batch: int = 1) -> Callable[[int], None]:
        return lambda count: self._onlooker.tell(f"{task} {count * batch:,} of {of:,}")

    def _gauge(self) -> Gauge:
        return Gauge(self._node.pid, (self._receiver.pid, self._generator.pid))


def _check(done: Done, status: str) -> None:
    """Raise unless every request was answered so."""
    if set(done.statuses) != {status}:
        raise BenchFailed(f"the node answered {done.statuses}, and not {status} only")


def _cpu_ms(busy: Busy | None, count: int) -> float | None:
    """The processor time of the node for each timer."""
    return None if busy is None else 1000 * busy.node_seconds / count
