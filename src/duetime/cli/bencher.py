"""The bencher: runs a benchmark's processes, has them measured, and clears up after them."""

import asyncio
import secrets
import signal
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from duetime import __version__
from duetime.benching import servers
from duetime.benching.failures import BenchFailed, BrokenPromise
from duetime.benching.host import Host
from duetime.benching.machine import describe, processors
from duetime.benching.measuring import AHEAD, Bench, Sizes
from duetime.benching.picture import picture
from duetime.benching.process import free_port
from duetime.benching.report import Report
from duetime.benching.verdict import judge
from duetime.cli import bench_store
from duetime.cli.exits import Exit
from duetime.cli.interpreter import loop_factory
from duetime.cli.output import Screen
from duetime.cli.progress import Progress
from duetime.cli.show_bench import show_report
from duetime.clock import Clock, Millis, SystemClock
from duetime.config import Settings
from duetime.engine.reader import HORIZON
from duetime.stores.opening import kind_of
from duetime.timer import Status

DRAIN = 5_000  # milliseconds that the node has to end
STANDARD_OUTPUT = Path("-")


class Wishes(NamedTuple):
    """What was asked for beside the settings."""

    sizes: Sizes
    is_named: bool  # the database is somebody's own
    svg: Path
    json: Path | None


def run_bench(settings: Settings, wishes: Wishes) -> Exit:
    """Run a benchmark; the answer is the exit code."""
    clock = SystemClock()
    progress = Progress(clock)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            report = runner.run(_interruptible(_run(settings, wishes, clock, progress)))
    except BrokenPromise as error:
        progress.say(f"duetime: a promise was broken: {error}")
        return Exit.FAILED
    except BenchFailed as error:
        progress.say(f"duetime: {error}")
        return Exit.FAILED
    finally:
        progress.end()
    return _tell(report, wishes, progress)


def bench_settings(settings: Settings) -> Settings:
    """As the node of a benchmark runs: for nobody else, and without a word to anybody else.

    What makes it faster or slower stays as it was set. NATS is left out, for it could bring a
    user's timers; and so is whatever would keep callbacks from the receiver.
    """
    return replace(
        settings,
        api_key=secrets.token_urlsafe(32),
        host="127.0.0.1",
        port=free_port(),
        log_level="warning",
        min_delay=0,
        egress_allow=("127.0.0.0/8",),
        egress_deny=(),
        egress_proxy=None,
        nats_url=(),
        nats_token=None,
        nats_creds=None,
        nats_nkey_seed=None,
        nats_tls_ca=None,
        nats_tls_cert=None,
        nats_tls_key=None,
        nats_commands="off",
        commands_stream=None,
        unknown_groups="create",
        drain_timeout=DRAIN,
    )


async def _run(settings: Settings, wishes: Wishes, clock: Clock, progress: Progress) -> Report:
    settings = bench_settings(settings)
    machine = describe()
    async with AsyncExitStack() as stack:
        if wishes.is_named:
            await stack.enter_async_context(bench_store.borrowed(settings, clock, progress.say))
        else:
            settings = stack.enter_context(bench_store.fresh_file(settings))
        measured = await _measured(settings, wishes.sizes, machine, progress)
        await _check_stored(settings, measured)
    return measured.report


class _Measured(NamedTuple):
    report: Report
    waiting: int  # timers that must still be there, and nothing else but what has ended


async def _measured(
    settings: Settings, sizes: Sizes, machine: dict[str, str], progress: Progress
) -> _Measured:
    progress.say(f"starting a node, a receiver and a load generator on {machine['processor']}")
    async with AsyncExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="duetime-bench-")))
        receiver = await stack.enter_async_context(servers.sink(logs / "receiver"))
        generator = await stack.enter_async_context(servers.generator(logs / "generator"))
        running = servers.node(msgspec.json.encode(settings), settings.port, logs / "node")
        node = await stack.enter_async_context(running)
        bench = Bench(
            node,
            receiver,
            generator,
            key=settings.api_key or "",
            sizes=sizes,
            onlooker=progress,
            ahead=ahead_of(settings),
        )
        host = Host()
        creates = await bench.creates()
        batches = await bench.batches()
        burst = await bench.burst(batches.per_second)
        steady = await bench.steady()
        found = await bench.limit()
        taken = host.taken
    report = Report(
        version=__version__,
        machine=machine,
        store=bench_store.described(settings),
        workers=settings.workers,
        creates=creates,
        batches=batches,
        burst=burst,
        steady=steady,
        limit=judge(
            found,
            workers=settings.workers,
            processors=processors(),
            waits_for=bench_store.waits_for(settings),
        ),
        steps=found.steps,
        timers=bench.fired,
        taken=taken,
        repeats=bench.repeats,
    )
    return _Measured(report, bench.waiting)


def ahead_of(settings: Settings) -> Millis:
    """How long before it is due a timer is made.

    Where a worker does not hear what another has made, it finds that in time only beyond the
    stretch that it has read already. What is due sooner is late whatever the rate.
    """
    if settings.workers == 1 or kind_of(settings.database_url).traits.passes_news:
        return AHEAD
    return AHEAD + HORIZON + settings.poll_interval


async def _check_stored(settings: Settings, measured: _Measured) -> None:
    """Check that what is far from due is there, and that all the rest was written down as done."""
    found = await bench_store.left(settings)
    if (waiting := found.pop(Status.PENDING, 0)) != measured.waiting:
        raise BrokenPromise(f"{waiting:,} of {measured.waiting:,} timers that are not due are left")
    found.pop(Status.COMPLETED, None)  # RETENTION may have dropped some
    if found:
        shown = ", ".join(f"{count:,} {status.value}" for status, count in found.items())
        raise BrokenPromise(f"timers arrived and were not written down so: {shown}")


async def _interruptible(work: Coroutine[Any, Any, Report]) -> Report:
    """Have SIGTERM end the work as Ctrl-C does, so that it clears up."""
    task = asyncio.create_task(work)
    loop = asyncio.get_running_loop()
    is_told = False

    def stop() -> None:
        nonlocal is_told
        is_told = True
        task.cancel()

    with suppress(NotImplementedError):  # there are systems without it
        loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        return await task
    except asyncio.CancelledError:
        if is_told:
            raise KeyboardInterrupt from None
        raise


def _tell(report: Report, wishes: Wishes, progress: Progress) -> Exit:
    """Print the report, and write the files that were asked for."""
    content = msgspec.json.format(msgspec.json.encode(report), indent=2)
    if wishes.json == STANDARD_OUTPUT:
        Screen().json(report)
    else:
        show_report(Screen(), report)
    files = [(wishes.svg, picture(report).encode())]
    if wishes.json is not None and wishes.json != STANDARD_OUTPUT:
        files.append((wishes.json, content + b"\n"))
    code = Exit.OK
    for path, text in files:
        try:
            path.write_bytes(text)
        except OSError as error:
            progress.say(f"duetime: {path}: cannot be written: {error.strerror}")
            code = Exit.FAILED
        else:
            progress.say(f"written to {path}")
    return code
