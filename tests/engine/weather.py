"""What a storm is made of: a fast clock, a failing store, receivers of every temper, and users."""

import asyncio
import contextlib
import copy
import random
import time
from collections import Counter

import msgspec

from duetime.engine import Engine
from duetime.errors import DuetimeError, StoreUnavailable
from duetime.requests import CreateTimer, UpdateTimer
from duetime.service import Service
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.timer import Kind, Outcome, Status, Timer

SPEED = 10
OK = Outcome(kind=Kind.OK, status_code=200)


class FastClock:
    """Real time, only faster: a FakeClock would order what here is meant to collide."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def monotonic(self) -> float:
        return SPEED * (time.monotonic() - self._start)

    def now(self) -> int:
        return 1_750_000_000_000 + int(1000 * self.monotonic())

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0) / SPEED):
                await event.wait()
        return event.is_set()

    def alarm(self, seconds, ring):
        return asyncio.get_running_loop().call_later(seconds / SPEED, ring)


class StormyStore:
    """Fails now and then: before a call, after it, or in the middle of a batch."""

    def __init__(self, chance: random.Random) -> None:
        self.store = MemoryStore()
        self.traits = self.store.traits
        self.rate = 0.05
        self._chance = chance

    def __getattr__(self, name):
        method = getattr(self.store, name)
        if name == "listen":
            return method

        async def call(*args):
            await asyncio.sleep(self._chance.random() * 0.002)
            draw = self._chance.random() / self.rate if self.rate else 1
            if draw < 0.4:
                raise StoreUnavailable("before")
            if draw < 0.6 and name == "apply":
                await method(args[0][: len(args[0]) // 2])
                raise StoreUnavailable("half of it")
            answer = await method(*args)
            if draw < 1:
                raise StoreUnavailable("after")
            await asyncio.sleep(self._chance.random() * 0.002)
            return answer

        return call


class Told:
    """What the users of one timer were told, and so what may still arrive of it."""

    def __init__(self, timer: Timer) -> None:
        self.version = timer.version
        self.execute_at: int | None = timer.execute_at  # unknown while a change is in doubt
        self.urls = {timer.spec.callback.url}  # several while a change is in doubt
        self.is_paused = False
        self.is_canceled = False
        self.is_in_doubt = False  # whether it was canceled

    def wrong(self, timer: Timer, now: int) -> str | None:
        """What is wrong with this attempt, if it is sent now."""
        if self.is_canceled:
            return "came after its cancel"
        if self.is_paused:
            return "came while it was paused"
        if timer.version <= self.version:
            return "came in a version that was changed since"
        if timer.spec.callback.url not in self.urls:
            return "came with the content from before its update"
        if self.execute_at is not None and now < self.execute_at:
            return "came before the time that was acknowledged"
        return None


class Receivers:
    """Quick ones, slow ones, some that time out, some that fail; they see what reaches them."""

    def __init__(self, clock: FastClock, chance: random.Random) -> None:
        self.arrived: list[tuple[str, str, int]] = []  # timer, webhook id, attempt
        self.wrong: list[str] = []
        self.told: dict[str, Told] = {}  # by the timer's id
        self._clock = clock
        self._chance = chance

    def problem(self, callback) -> None:
        return None

    def target(self, callback) -> str:
        return callback.url

    async def send(self, timer, is_mine) -> Outcome:
        await asyncio.sleep(self._chance.choice([0, 0, 0.005]))
        if not is_mine():
            return Outcome(kind=Kind.UNSENT)
        self.arrived.append((timer.id, timer.webhook_id, timer.progress.attempt))
        if self._clock.now() < timer.execute_at:
            self.wrong.append(f"{timer.id} came early")
        told = self.told.get(timer.id)
        if told and (wrong := told.wrong(timer, self._clock.now())):
            self.wrong.append(f"{timer.id} {wrong}")
        return await self._answer(timer.spec.callback.url)

    async def _answer(self, url: str) -> Outcome:
        temper = url.removeprefix("https://").partition("-")[0]
        await asyncio.sleep({"slow": 0.05, "hanging": 0.1}.get(temper, 0))
        is_bad_day = self._chance.random() < 0.4
        if temper == "hanging" and is_bad_day:
            return Outcome(kind=Kind.TIMEOUT, error="no answer", retryable=True)
        if temper == "failing" and is_bad_day:
            return Outcome(kind=Kind.HTTP, status_code=500, error="HTTP 500", retryable=True)
        return OK

    async def close(self) -> None:
        pass


class Users:
    """They create, cancel, update, fire, pause and resume, at random."""

    def __init__(self, service: Service, receivers: Receivers, chance: random.Random) -> None:
        self._service = service
        self._receivers = receivers
        self._chance = chance
        self._ids: list[str] = []
        self.granted: Counter[str] = Counter()  # by what was asked for

    async def act(self) -> None:
        if not self._ids or self._chance.random() < 0.5:
            with contextlib.suppress(DuetimeError):
                for _ in range(self._chance.choice([1, 1, 30])):
                    await self._create()
            return
        for _ in range(4):  # for most have come to an end by now, and are refused
            with contextlib.suppress(DuetimeError):
                newest = self._chance.choice([40, 300])
                await self._change(self._chance.choice(self._ids[-newest:]))

    async def _create(self) -> None:
        body = {
            "delay": self._chance.choice(["0s", "0s", "1s", "3s", "9s"]),
            "callback": self._callback(),
            "retry_policy": {"max_attempts": 50, "initial_interval": "1s", "max_interval": "2s"},
        }
        timer, _ = await self._service.create(OPERATOR, msgspec.convert(body, CreateTimer))
        self._ids.append(timer.id)
        self._receivers.told[timer.id] = Told(timer)
        self.granted["create"] += 1

    async def _change(self, id_: str) -> None:
        change = self._chance.choice(["cancel", "update", "update", "fire", "pause", "resume"])
        paused = [each for each in self._ids if self._receivers.told[each].is_paused]
        if change == "resume" and paused:
            id_ = self._chance.choice(paused)
        told = self._receivers.told[id_]
        before = copy.copy(told)
        # From here on until it is answered, either version may start.
        told.execute_at = None
        told.is_paused = told.is_paused and change not in {"fire", "resume"}
        try:
            if change == "update":
                fields = self._chance.choice([{"callback": self._callback()}, {"delay": "2s"}])
                if callback := fields.get("callback"):
                    told.urls = told.urls | {callback["url"]}
                body = msgspec.convert(fields, UpdateTimer)
                timer = await self._service.update(OPERATOR, id_, body)
            else:
                timer = await getattr(self._service, change)(OPERATOR, id_)
        except StoreUnavailable:
            told.is_in_doubt = told.is_in_doubt or change == "cancel"
            raise
        except DuetimeError:  # nothing was changed
            vars(told).update(vars(before))
            raise
        told.__init__(timer)
        told.is_paused = timer.status is Status.PAUSED
        told.is_canceled = change == "cancel"
        self.granted[change] += 1

    def _callback(self) -> dict:
        temper = self._chance.choice(["quick", "slow", "hanging", "failing"])
        callback = {"type": "http", "url": f"https://{temper}-{self._chance.randrange(5)}.example/"}
        if self._chance.random() < 0.15:
            size = self._chance.choice([9_000, 50_000, 150_000])
            callback["payload"] = msgspec.Raw(b'"' + b"x" * size + b'"')
        return callback


def unlike_what_was_told(store: MemoryStore, receivers: Receivers) -> list[str]:
    """Timers that were acknowledged and are not there, or are canceled and should not be."""
    found = []
    for id_, told in receivers.told.items():
        timer = store._timers.get(id_)
        if timer is None:
            found.append(f"{id_} is not there")
        elif timer.version < told.version:
            found.append(f"{id_} is older than was acknowledged")
        elif (timer.status is Status.CANCELED) != told.is_canceled and not told.is_in_doubt:
            found.append(f"{id_} is {timer.status}")
    return found


def sent_after_it_was_taken_up(arrived: list[tuple[str, str, int]]) -> list[tuple[str, int]]:
    """Attempts that arrived after a later one of the same occurrence."""
    newest: dict[str, int] = {}
    found = []
    for _, webhook_id, attempt in arrived:
        if attempt < newest.get(webhook_id, 0):
            found.append((webhook_id, attempt))
        newest[webhook_id] = max(attempt, newest.get(webhook_id, 0))
    return found


async def settled(store: MemoryStore, service: Service, receivers: Receivers) -> None:
    """Wait until no timer is left to do; those that are paused go on first."""
    for told in receivers.told.values():
        told.is_paused = False
    for timer in list(store._timers.values()):
        if timer.status is Status.PAUSED:
            await service.resume(OPERATOR, timer.id)

    def is_busy() -> bool:
        return any(timer.wake_at is not None for timer in store._timers.values())

    async with asyncio.timeout(60):
        while is_busy():  # noqa: ASYNC110 - a store tells nobody
            await asyncio.sleep(0.05)


def counters(engine: Engine) -> list[int]:
    """All that must be zero when nothing is left to do."""
    crowd, departures = engine.targets, engine.departures
    columns = (engine.agenda._in_time, engine.agenda._backlog)
    return [
        crowd.under_way,
        crowd._places._load,
        crowd.queues.weight,
        len(crowd.queues.versions),
        len(crowd.queues.away),
        len(crowd._targets),
        len(crowd._tenants),
        len(crowd._turns._tenants),
        len(crowd._turns._stopped),
        len(crowd._turns._squeezed),
        len(crowd._turns._crowding),
        len(engine.committer),
        len(departures._places),
        len(departures._ready),
        len(engine.agenda),
        *(column.weight for column in columns),
        len(engine.agenda._away),
    ]
