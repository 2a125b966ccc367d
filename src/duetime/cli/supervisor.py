"""The supervisor of `serve --workers N`: keeps N workers running on one port, and ends them.

It opens the port, brings the schema up to date once, and starts the workers. One that dies is
replaced; one that dies again and again right after its start ends them all, for whoever runs the
service to see. It handles no request and no timer itself, so that little in it can fail.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import suppress

from duetime import __version__
from duetime.api.server import listen
from duetime.cli import logs
from duetime.cli.banner import reachable
from duetime.cli.child import Child, fate, is_as_told
from duetime.cli.exits import Exit
from duetime.cli.messaging import connected
from duetime.cli.storage import migrate
from duetime.cli.worker import STORE_AWAY
from duetime.clock import SystemClock
from duetime.config import Settings, without_password
from duetime.errors import ConfigurationError
from duetime.stores.opening import kind_of

log = logging.getLogger("duetime")

FIRST_PAUSE = 0.5  # seconds before a worker that died is replaced; twice as long each time
EARLY = 30.0  # a worker that dies within so many seconds of its start died early
MOST_EARLY_DEATHS = 5  # in a row; then it is of no use to go on
READY_WITHIN = 60.0  # seconds that a worker has to become ready in a rolling restart
BEYOND_DRAIN = 10.0  # seconds after DRAIN_TIMEOUT, for writing the outcomes and for its end


def run_supervisor(settings: Settings) -> int:
    """Run the workers until a signal ends them; the answer is the exit code."""
    _check(settings)
    logs.configure(settings.log_level, settings.log_format)
    if kind_of(settings.database_url).traits.nodes == "one machine":
        log.warning(
            "the workers share one SQLite file, and take turns at writing to it: "
            "expect no more timers a second than with WORKERS=1"
        )
    # All workers accept from this one socket. With a socket of its own for each (SO_REUSEPORT),
    # connections that wait for a worker which died, drains or is busy would be lost, or wait for
    # that one; here whoever is free takes them, and the queue outlives every worker. The price is
    # that connections are not shared out evenly; a busy worker gets fewer, which is not the worst.
    with listen(settings.host, settings.port) as listener:
        return asyncio.run(_run(settings, listener))


async def _run(settings: Settings, listener: socket.socket) -> int:
    await migrate(settings)
    async with connected(settings, SystemClock(), "supervisor"):
        pass  # if NATS cannot be reached, nothing is started
    return await Supervisor(settings, listener).run()


def _check(settings: Settings) -> None:
    """Refuse what several workers cannot share."""
    if sys.platform == "win32":
        raise ConfigurationError("WORKERS: must be 1 on Windows, where processes share no port")
    if kind_of(settings.database_url).traits.nodes == "one process":
        raise ConfigurationError(
            "WORKERS: must be 1 with memory://, because each worker would have timers of its own; "
            "set DATABASE_URL to a database, or WORKERS to 1"
        )


class Seat:
    """A worker's place: who has it now, and how often in a row it was lost early."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.changing = asyncio.Lock()  # held by whoever is about to give it to another child
        self._early_deaths = 0

    def lost(self, age: float) -> float | None:
        """How long to wait before it is filled again; None if that is of no use."""
        self._early_deaths = self._early_deaths + 1 if age < EARLY else 0
        if self._early_deaths >= MOST_EARLY_DEATHS:
            return None
        return FIRST_PAUSE * 2.0 ** max(self._early_deaths - 1, 0)


class Supervisor:
    """Keeps the workers running."""

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._settings = settings
        self._listener = listener
        self._children: list[Child] = []  # every process that may be alive
        self._seats: list[Seat] = []
        self._stop = asyncio.Event()
        self._rolling: asyncio.Task[None] | None = None
        self._is_announced = False

    async def run(self) -> int:
        """Run until a signal comes, or until it is of no use; the answer is the exit code."""
        self._heed_signals()
        tasks = {asyncio.create_task(self._until_told())}
        try:
            for number in range(1, self._settings.workers + 1):
                self._seats.append(Seat(self._start(number)))
            tasks |= {asyncio.create_task(self._keep(seat)) for seat in self._seats}
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            code = max(task.result() for task in done)
        except OSError as error:
            raise ConfigurationError(
                f"WORKERS: the system does not start {self._settings.workers} processes: {error}"
            ) from error
        finally:
            for task in (*tasks, self._rolling):
                if task is not None:
                    task.cancel()
            is_clean = await self._drain()
        return code if is_clean else max(code, Exit.FAILED)

    async def _until_told(self) -> Exit:
        await self._stop.wait()
        return Exit.OK

    def _start(self, number: int) -> Child:
        child = Child(number, self._settings, self._listener, on_ready=self._on_ready)
        self._children = [each for each in self._children if not each.has_ended] + [child]
        return child

    def _on_ready(self, child: Child) -> None:
        log.info("worker %d (pid %d) takes requests", child.number, child.pid)
        if not self._is_announced and all(seat.child.is_ready for seat in self._seats):
            self._is_announced = True
            log.info(
                "duetime %s listens on %s with %d workers, timers are in %s",
                __version__,
                reachable(self._settings.host, self._settings.port),
                len(self._seats),
                without_password(self._settings.database_url),
            )

    async def _keep(self, seat: Seat) -> Exit:
        """Fill a seat whenever its worker dies; return only when that is of no use."""
        while True:
            child = seat.child
            code = await child.ended()
            age = child.age
            async with seat.changing:
                if seat.child is not child:  # it was replaced, and ended as it should
                    continue
                what = f"worker {child.number} (pid {child.pid}) {fate(code)} after {age:.1f} s"
                if code == Exit.USAGE and not child.is_ready:
                    log.error("%s: another would find the same settings", what)
                    return Exit.USAGE
                if code == STORE_AWAY:
                    age = EARLY  # not its fault: the others wait until the database is back too
                if not await self._refill(seat, what, age):
                    return Exit.FAILED

    async def _refill(self, seat: Seat, what: str, age: float) -> bool:
        number = seat.child.number
        while (pause := seat.lost(age)) is not None:
            log.warning("%s; another is started in %.1f s", what, pause)
            await asyncio.sleep(pause)
            try:
                seat.child = self._start(number)
            except OSError as error:
                what, age = f"worker {number} could not be started: {error}", 0.0
            else:
                return True
        log.error(
            "%s: number %d in a row that did not last %.0f s, so all workers are stopped. "
            "What they logged before they died says why; SIGKILL often means that the machine "
            "has too little memory for WORKERS=%d",
            what,
            MOST_EARLY_DEATHS,
            EARLY,
            self._settings.workers,
        )
        return False

    async def _roll(self) -> None:
        """Replace every worker, one after the other; each new one is ready before its old one goes.

        If a new one does not become ready, the old ones stay.
        """
        log.info("rolling restart: replacing %d workers", len(self._seats))
        for seat in self._seats:
            async with seat.changing:
                old = seat.child
                if not await self._replace(seat):
                    log.error(
                        "rolling restart: given up, because no other worker %d would start; "
                        "pid %d and those after it go on as they are",
                        old.number,
                        old.pid,
                    )
                    return
        log.info("rolling restart: done")

    async def _replace(self, seat: Seat) -> bool:
        old = seat.child
        try:
            new = self._start(old.number)
        except OSError as error:
            log.error("%s", error)  # noqa: TRY400 - it is no bug
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_WITHIN):
                await new.settled()
        if not new.is_ready:
            new.kill()
            return False
        seat.child = new
        await self._see_off([old])
        return True

    async def _drain(self) -> bool:
        """End all workers; the answer tells whether all of them ended as they should."""
        self._listener.close()  # once the last worker has closed it too, connections are refused
        remaining = [child for child in self._children if not child.has_ended]
        log.info("stopping %d workers", len(remaining))
        codes = await self._see_off(remaining)
        log.info("stopped; timers that are due later stay in the database")
        return all(map(is_as_told, codes))

    async def _see_off(self, children: list[Child]) -> list[int]:
        """Tell them to stop, wait for that, and end those that do not."""
        for child in children:
            child.stop()
        everyone = asyncio.gather(*(child.ended() for child in children))
        try:
            async with asyncio.timeout(self._settings.drain_timeout / 1000 + BEYOND_DRAIN):
                return await asyncio.shield(everyone)
        except TimeoutError:
            for child in children:
                if not child.has_ended:
                    log.warning("worker %d (pid %d) did not end in time", child.number, child.pid)
                    child.kill()
            return await everyone

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_stop)
        # On a terminal, it says that the terminal is gone: it ends us, and the workers follow.
        if not os.isatty(0):
            loop.add_signal_handler(signal.SIGHUP, self._on_hangup)

    def _on_stop(self) -> None:
        if self._stop.is_set():
            log.warning("stopping at once; what is under way will be tried again")
            for child in self._children:
                child.kill()
            os._exit(Exit.FAILED)
        self._stop.set()

    def _on_hangup(self) -> None:
        if self._rolling is not None and not self._rolling.done():
            log.info("rolling restart: one is under way already")
        else:
            self._rolling = asyncio.create_task(self._roll())
