"""A node's actions without sockets: use cases and clerk over a store, moved by hand."""

from collections.abc import Sequence
from typing import Any

import msgspec

from duetime.bulk import action as actions
from duetime.bulk.action import Action
from duetime.bulk.requests import CreateAction
from duetime.errors import StoreUnavailable
from duetime.service import Service
from duetime.stores import Store
from duetime.tenancy.caller import OPERATOR, Caller
from duetime.testing import FakeClock, RecordingSender
from duetime.timer import Timer
from tests.factories import insert, make_timer

MOST_STEPS = 1_000


class Crash(BaseException):
    """The process is killed here: nobody catches it."""


class CrashingStore:
    """A store whose process dies at its n-th write: before it, after it, or half way through."""

    def __init__(self, store: Store, at: int, how: str) -> None:
        self.store = store
        self.traits = store.traits
        self.writes = 0
        self._at = at
        self._how = how

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)
        if name not in {"apply", "remove", "put_record", "write_lines"}:
            return method

        async def call(*args: Any, **named: Any) -> Any:
            self.writes += 1
            if self.writes != self._at:
                return await method(*args, **named)
            if self._how == "half way" and name in {"apply", "remove"}:
                await method(args[0][: len(args[0]) // 2])
            elif self._how == "after":
                await method(*args, **named)
            raise Crash(name)

        return call


class FailingStore(CrashingStore):
    """A store whose n-th write fails, before or after it was done: its process goes on."""

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)

        async def call(*args: Any, **named: Any) -> Any:
            try:
                return await method(*args, **named)
            except Crash as crash:
                raise StoreUnavailable(f"{crash} failed, as told") from None

        return call


class Desk:
    """One node."""

    def __init__(self, store: Any, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.noticed: list[Timer] = []
        self.service = Service(store, RecordingSender(), clock)
        self.service._notice = self.noticed.append  # what the engine would hear of

    @property
    def name(self) -> str:
        return self.service.actions._clerk.name

    async def ask(
        self,
        verb: str,
        wanted: dict[str, Any] | None = None,
        caller: Caller = OPERATOR,
        key: str | None = None,
        **more: Any,
    ) -> Action:
        """Ask for an action; by default on every timer."""
        body = {"action": verb, "filter": wanted or {"all": True}, **more}
        request = msgspec.json.decode(msgspec.json.encode(body), type=CreateAction)
        action, _ = await self.service.actions.create(caller, request, key)
        return action

    async def see(self, action: Action, caller: Caller = OPERATOR) -> Action:
        return await self.service.actions.get(caller, action.id)

    async def step(self) -> float:
        """Let each action that is this node's have its turn."""
        while not (pause := await self.service.actions.step()):
            pass
        return pause

    async def work(self) -> None:
        """Work until nothing is under way that this node can work on."""
        for _ in range(MOST_STEPS):
            pause = await self.step()
            if pause > 0 and not self.service.actions._clerk._works:
                return
        raise AssertionError("it does not come to an end")

    async def watch(self, seconds: int) -> None:
        """Let time pass, and look at the records as often as a node does."""
        for _ in range(0, seconds, 3):
            self.clock.advance(3_000)
            await self.step()

    async def take_over(self) -> None:
        """Watch until records of others have stood still for long enough, then work."""
        await self.watch(15)
        await self.work()


async def under_way(store: Any) -> list[Action]:
    return [actions.read(record) for record in await store.records(actions.KIND)]


async def put_timers(store: Any, count: int, **overrides: Any) -> list[Timer]:
    """Store so many timers, made one after the other."""
    fields = {"created_at": 1_749_000_000_000, **overrides}
    made = [
        make_timer(**fields | {"created_at": fields["created_at"] + number})
        for number in range(count)
    ]
    await insert(store, *made)
    return made


async def stored(store: Any, timers: Sequence[Timer]) -> list[Timer | None]:
    return await store.get([timer.id for timer in timers])


def counts(action: Action) -> tuple[int, int, int, int]:
    """Matched, changed, skipped, failed."""
    tally = action.tally
    return tally.matched, tally.changed, tally.skipped, tally.failed
