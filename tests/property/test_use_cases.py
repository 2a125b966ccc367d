"""The use cases and the engine's transitions, in any order, against a plain model of them."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from duetime import model
from duetime.errors import Conflict, IllegalTransition, NotFound, PreconditionFailed
from duetime.ids import ALL_SHARDS
from duetime.requests import CreateTimer, HttpCallbackBody, RetryPolicyBody, UpdateTimer
from duetime.searching import Filter, Part
from duetime.service import Service
from duetime.stores import Change, Store
from duetime.stores.memory import MemoryStore
from duetime.stores.sqlite.store import SqliteStore
from duetime.tenancy.caller import OPERATOR, Caller
from duetime.testing import FakeClock, RecordingSender
from duetime.timer import FINISHED, Kind, Outcome, Status, Timer
from duetime.transitions import TRANSITIONS

CLAIM_FOR = 10_000
OUTCOMES = {
    "ok": Outcome(kind=Kind.OK, status_code=200),
    "refused": Outcome(kind=Kind.HTTP, status_code=404, error="HTTP 404"),
    "again": Outcome(kind=Kind.TIMEOUT, error="timed out", retryable=True),
}
KEYS = st.sampled_from(["a", "b", "c", "ä/ß"])
NAMES = st.sampled_from(["one", "two"])
MILLIS = {"0s": 0, "5s": 5_000, "1h": 3_600_000}
DELAYS = st.sampled_from(sorted(MILLIS))


class Expected(msgspec.Struct):
    """What the model knows of one timer."""

    status: Status
    version: int
    key: str
    name: str | None
    made_of: tuple[Any, ...] | None  # the content it was created with, if it has a key
    execute_at: int


class UseCases(RuleBasedStateMachine):
    """Does what users and engines do, and knows what must come of it."""

    timers = Bundle("timers")
    stale = Bundle("stale")  # timers as they once were

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.store = self.runner.run(self.open())
        self.service = Service(self.store, RecordingSender(), self.clock)
        self.expected: dict[str, Expected] = {}
        self.seen: dict[str, Timer] = {}

    async def open(self) -> Store:
        raise NotImplementedError

    def run(self, awaitable):
        return self.runner.run(awaitable)

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()

    # What users do

    @initialize(target=timers)
    def first(self):
        return self._create(None, "one", "5s")

    @rule(target=timers, name=NAMES, delay=DELAYS)
    def create(self, name: str, delay: str):
        return self._create(None, name, delay)

    @rule(target=timers, key=KEYS, name=NAMES, delay=DELAYS)
    def create_with_key(self, key: str, name: str, delay: str):
        return self._create(key, name, delay)

    def _create(self, key: str | None, name: str, delay: str):
        body = _body(key, name, delay)
        taken = self._with_key(key)
        if taken is None:
            timer, is_new = self.run(self.service.create(OPERATOR, body))
            assert is_new
            made_of = None if key is None else (name, delay)
            key = timer.id if key is None else key
            at = self.clock.now() + MILLIS[delay]
            self.expected[timer.id] = Expected(Status.PENDING, 1, key, name, made_of, at)
            return timer.id
        if self.expected[taken].made_of == (name, delay):
            timer, is_new = self.run(self.service.create(OPERATOR, body))
            assert (timer.id, is_new) == (taken, False)
        else:
            with pytest.raises(Conflict):
                self.run(self.service.create(OPERATOR, body))
        return multiple()

    @rule(target=timers, key=KEYS, name=NAMES, delay=DELAYS)
    def put(self, key: str, name: str, delay: str):
        body = _body(key, name, delay)
        taken = self._with_key(key)
        if taken is None:
            return self._create(key, name, delay)
        known = self.expected[taken]
        if known.status not in TRANSITIONS["replace"]:
            with pytest.raises(IllegalTransition):
                self.run(self.service.put(OPERATOR, body))
            return multiple()
        timer, is_new = self.run(self.service.put(OPERATOR, body))
        assert (timer.id, is_new) == (taken, False)
        self._moved(timer, "replace")
        known.name, known.made_of = name, (name, delay)
        known.execute_at = self.clock.now() + MILLIS[delay]
        return multiple()

    @rule(id_=timers, delay=DELAYS)
    def update(self, id_: str, delay: str):
        body = UpdateTimer(delay=delay, name="changed")
        if self._act("update", id_, self.service.update(OPERATOR, id_, body)):
            self.expected[id_].name = "changed"
            self.expected[id_].execute_at = self.clock.now() + MILLIS[delay]

    @rule(id_=timers)
    def cancel(self, id_: str):
        if self.expected[id_].status is Status.CANCELED:  # a repeat answers like the first one
            timer = self.run(self.service.cancel(OPERATOR, id_))
            assert timer.version == self.expected[id_].version
        else:
            self._act("cancel", id_, self.service.cancel(OPERATOR, id_))

    @rule(id_=timers)
    def pause(self, id_: str):
        self._act("pause", id_, self.service.pause(OPERATOR, id_))

    @rule(id_=timers)
    def resume(self, id_: str):
        self._act("resume", id_, self.service.resume(OPERATOR, id_))

    @rule(id_=timers)
    def fire(self, id_: str):
        if self._act("fire", id_, self.service.fire(OPERATOR, id_)):
            assert self._stored(id_).wake_at == self.clock.now()
            known = self.expected[id_]
            known.execute_at = min(known.execute_at, self.clock.now())

    @rule(id_=timers)
    def redrive(self, id_: str):
        if self._act("redrive", id_, self.service.redrive(OPERATOR, id_)):
            assert self._stored(id_).wake_at == self.clock.now()

    @rule(id_=timers)
    def insist_on_a_version_that_is_gone(self, id_: str):
        with pytest.raises(PreconditionFailed):
            self.run(self.service.cancel(OPERATOR, id_, self.expected[id_].version + 1))

    @rule(id_=timers)
    def get(self, id_: str):
        timer = self.run(self.service.get(OPERATOR, id_))
        by_key = self.run(self.service.get_by_key(OPERATOR, "default", self.expected[id_].key))
        assert timer == by_key
        with pytest.raises(NotFound):
            self.run(self.service.get(Caller("another"), id_))

    # What engines do

    @rule(id_=timers, node=st.sampled_from(["n1", "n2"]))
    def claim(self, id_: str, node: str):
        self._transition(
            "claim", id_, lambda timer: model.claim(timer, node, self.clock.now(), CLAIM_FOR)
        )

    @rule(id_=timers, outcome=st.sampled_from(sorted(OUTCOMES)))
    def finish(self, id_: str, outcome: str):
        self._transition(
            "finish",
            id_,
            lambda timer: model.finish(timer, OUTCOMES[outcome], self.clock.now(), 0.5),
            OUTCOMES[outcome],
        )

    @rule(id_=timers)
    def renew(self, id_: str):
        self._transition("renew", id_, lambda t: model.renew(t, self.clock.now(), CLAIM_FOR))

    @rule(id_=timers, was_sent=st.booleans())
    def release(self, id_: str, *, was_sent: bool):
        self._transition(
            "release", id_, lambda t: model.release(t, self.clock.now(), was_sent=was_sent)
        )

    @rule(id_=timers)
    def take_up(self, id_: str):
        self._transition(
            "take up", id_, lambda t: model.take_up(t, "n3", self.clock.now(), CLAIM_FOR)
        )

    @rule(id_=timers)
    def expire(self, id_: str):
        self._transition("expire", id_, lambda t: model.expire(t, self.clock.now()))

    @rule(target=stale, id_=timers)
    def look(self, id_: str):
        return self._stored(id_)

    @rule(old=consumes(stale))
    def claim_what_was_seen_before(self, old: Timer):
        """Whoever acts on a row that has changed since loses, and changes nothing."""
        if old.status is not Status.PENDING:
            return
        new = model.claim(old, "late", self.clock.now(), CLAIM_FOR)
        [won] = self.run(self.store.apply([Change(old, new)]))
        assert won == (self.expected[old.id].version == old.version)
        if won:
            self._moved(new, "claim")

    @rule(millis=st.sampled_from([1, 4000, 20_000, 3_600_000]))
    def time_passes(self, millis: int):
        self.clock.advance(millis)

    # What must hold

    @invariant()
    def all_agree(self):
        self._rows_agree_with_the_model()
        self._due_is_exactly_what_has_come()
        self._search_agrees_with_the_model()
        self._canceled_is_never_claimable()

    def _rows_agree_with_the_model(self):
        ids = list(self.expected)
        rows = self.run(self.store.get(ids))
        for id_, timer in zip(ids, rows, strict=True):
            known = self.expected[id_]
            assert timer is not None
            assert (timer.status, timer.version) == (known.status, known.version)
            assert (timer.timer_id, timer.spec.name) == (known.key, known.name)
            assert timer.execute_at == known.execute_at
            is_waking = timer.status in {Status.PENDING, Status.EXECUTING}
            assert (timer.wake_at is not None) == is_waking
            was_executed = timer.status in {Status.COMPLETED, Status.FAILED}
            assert (timer.executed_at is not None) == was_executed
            assert (timer.progress.claimed_by is not None) == (timer.status is Status.EXECUTING)
            assert timer.created_at <= timer.updated_at <= self.clock.now()
            before = self.seen.get(id_)
            if before is not None and before != timer:
                assert timer.version > before.version
                assert (timer.id, timer.created_at) == (before.id, before.created_at)
            self.seen[id_] = timer

    def _due_is_exactly_what_has_come(self):
        now = self.clock.now()
        due = self.run(self.store.due(ALL_SHARDS, None, now, 1000))
        waking = [t for t in self.seen.values() if t.wake_at is not None and t.wake_at <= now]
        assert [(line.place, line.version) for line in due] == sorted(
            ((timer.wake_at, timer.id), timer.version) for timer in waking
        )
        assert not [timer for timer in waking if timer.status in {*FINISHED, Status.PAUSED}]

    def _search_agrees_with_the_model(self):
        for status in Status:
            part = Part(limit=200, with_total=True)
            page = self.run(self.service.search(OPERATOR, Filter(statuses=(status,)), part))
            known = {id_ for id_, each in self.expected.items() if each.status is status}
            assert {timer.id for timer in page.timers} == known
            assert page.total == len(known)

    def _canceled_is_never_claimable(self):
        for id_, known in self.expected.items():
            if known.status is Status.CANCELED:
                with pytest.raises(IllegalTransition):
                    model.claim(self.seen[id_], "n1", self.clock.now(), CLAIM_FOR)

    # How

    def _with_key(self, key: str | None) -> str | None:
        return next((id_ for id_, each in self.expected.items() if each.key == key), None)

    def _stored(self, id_: str) -> Timer:
        [timer] = self.run(self.store.get([id_]))
        assert timer is not None
        return timer

    def _act(self, action: str, id_: str, acting) -> bool:
        """Do what a user asks for; tell whether it was allowed."""
        status = self.expected[id_].status
        if status in TRANSITIONS[action]:
            self._moved(self.run(acting), action)
            return True
        with pytest.raises(IllegalTransition) as refused:
            self.run(acting)
        assert str(refused.value) == f"cannot {action} timer with status '{status}'"
        return False

    def _transition(self, action: str, id_: str, change, outcome: Outcome | None = None) -> None:
        """Do what an engine does: read, change, compare and set."""
        old = self._stored(id_)
        if old.status not in TRANSITIONS[action]:
            with pytest.raises(IllegalTransition):
                change(old)
            return
        new = change(old)
        attempt = None
        if outcome is not None:
            attempt = model.attempt_record(old, new, outcome, self.clock.now())
        assert self.run(self.store.apply([Change(old, new, attempt=attempt)])) == [True]
        self._moved(new, action)

    def _moved(self, timer: Timer, action: str) -> None:
        known = self.expected[timer.id]
        assert timer.status in TRANSITIONS[action][known.status]
        assert timer.version == known.version + 1
        known.status, known.version = timer.status, timer.version


class OnMemory(UseCases):
    """On the reference store."""

    async def open(self) -> Store:
        return MemoryStore()


class OnSqlite(UseCases):
    """On the embedded store."""

    async def open(self) -> Store:
        self.folder = tempfile.TemporaryDirectory()
        store = SqliteStore(Path(self.folder.name) / "duetime.db", synchronous="off")
        await store.migrate()
        return store

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


def _body(key: str | None, name: str, delay: str) -> CreateTimer:
    return CreateTimer(
        callback=HttpCallbackBody(url="https://example.com/"),
        delay=delay,
        timer_id=key,
        name=name,
        retry_policy=RetryPolicyBody(max_attempts=3, initial_interval="5s"),
    )


@pytest.mark.promise("cancel-holds", "one-timer-per-key")
@pytest.mark.slow
@pytest.mark.parametrize(("machine", "examples"), [(OnMemory, 100), (OnSqlite, 25)])
def test_any_order(machine: type[UseCases], examples: int):
    """Whatever users and engines do in whatever order, every row obeys the table of transitions."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
