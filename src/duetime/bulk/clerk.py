"""The clerk works on the actions that are under way: one batch of each in turn, then a breath.

An action belongs to the node that its record names. Whoever finds a record that has stood still for
a while, on its own monotonic clock, takes it up: it writes its own name into it, and whoever loses
a record stops working on that action. So two may work on the same batch for a moment, and each
timer is still changed once: see ``batch.py``.

What must be done to its end and cannot be just now is put back, and so is what the store fails at
while others go on: it is nobody's, and after a pause, longer each time, whoever looks next tries it
again.
"""

import asyncio
import logging
import secrets
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from duetime.admission import MIB
from duetime.bulk import action as actions
from duetime.bulk import emptying, mandate, resuming
from duetime.bulk.action import Action, State, Tally, is_done, record_of
from duetime.bulk.batch import Batches
from duetime.bulk.beginning import Beginning
from duetime.bulk.conclusion import Conclusion
from duetime.bulk.pages import Pages
from duetime.bulk.sightings import Sightings
from duetime.clock import Clock
from duetime.errors import StoreError, UnsupportedQuery
from duetime.searching import Part, search
from duetime.stores import Record, Store
from duetime.stores.portions import portions
from duetime.tenancy.rules import Rules
from duetime.timer import Timer

log = logging.getLogger("duetime.bulk")

BATCH = 200
HEAVIEST = 4 * MIB  # timers of a batch, together, and about those that are read at once
MOST_SEEN = 2_000  # timers that are looked at for one batch
LOOK_EVERY = 3.0  # seconds
TIDY_EVERY = 3_600.0
TAKEN_UP_AFTER = 10.0  # that a record has stood still
PREPARED_FOR = 60.0  # seconds: longer than anybody waits for all nodes to obey
SHORTEST_BREATH = 0.005
LONGEST_BREATH = LOOK_EVERY
SHORTEST_PAUSE = 10.0  # seconds before what was given up for now is tried again
LONGEST_PAUSE = 300.0
MOST_FAILURES = 3  # of the store, in a row, before an action is given up for now
LONGEST_FAILURE = 1.0  # seconds; what takes longer must not be tried again with each round


class Work(msgspec.Struct):
    """An action that this node works on."""

    record: Record
    action: Action
    tally: Tally | None = None  # of its batch; None: nobody knows what became of that
    rests_until: float = 0.0
    failures: int = 0  # of the store, in a row
    pages: Pages = msgspec.field(default_factory=lambda: Pages(HEAVIEST))


class _Round(msgspec.Struct):
    """A turn for each action that does not rest."""

    began_at: float
    names: list[str]  # of those that have not had theirs yet, the next one last
    turns: int = 0
    failures: list[StoreError] = []


class Clerk:
    """Works on actions, those of all tenants."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        batches: Batches,
        *,
        rules: Rules,
        conclusion: Conclusion,
        beginning: Beginning,
    ) -> None:
        self.name = f"clerk-{secrets.token_hex(6)}"
        self._store = store
        self._clock = clock
        self._batches = batches
        self._rules = rules
        self._conclusion = conclusion
        self._beginning = beginning
        self._works: dict[str, Work] = {}
        self._round = _Round(clock.monotonic(), [])
        self._sightings = Sightings(LOOK_EVERY)
        self._look_at = clock.monotonic()
        self._failing: set[str] = set()  # names of records that the store failed at last time
        self._ends: dict[str, asyncio.Event] = {}

    def look_soon(self) -> None:
        """Look at the records with the next pass, and not only when it is time."""
        self._look_at = self._clock.monotonic()

    async def wait_for(self, action: str, seconds: float) -> None:
        """Wait until this node has ended an action, at most so long."""
        event = self._ends.setdefault(action, asyncio.Event())
        try:
            await self._clock.wait(event, seconds)
        finally:
            self._ends.pop(action, None)

    async def step(self) -> float:
        """Write a batch of the next action that is this node's; when each had its turn, breathe.

        No more than that: a node that is to stop does so between two turns.
        """
        if self._clock.monotonic() >= self._look_at:
            await self._look()
        if not self._round.names:
            self._round = self._new_round()
        if self._round.names:
            await self._take_turn(self._works.get(self._round.names.pop()))
        return 0.0 if self._round.names else self._end_round()

    def _new_round(self) -> _Round:
        now = self._clock.monotonic()
        ready = [name for name, work in self._works.items() if work.rests_until <= now]
        return _Round(now, ready[::-1])

    async def _take_turn(self, work: Work | None) -> None:
        if work is None:  # somebody else has it by now
            return
        self._round.turns += 1
        try:
            await self._turn(work)
        except StoreError as error:
            self._round.failures.append(error)
        else:
            # Many actions take long: those of others must not be lost sight of meanwhile.
            self._sightings.has_heard(self._clock.monotonic())

    def _end_round(self) -> float:
        """For how long to rest after it; StoreError: every turn has failed."""
        failures = self._round.failures
        if failures and len(failures) == self._round.turns:  # it is not about one of them
            raise failures[0]
        now = self._clock.monotonic()
        rests = [work.rests_until for work in self._works.values()]
        if all(until > now for until in rests):
            return max(min([self._look_at, *rests]) - now, 0)
        took = now - self._round.began_at
        return min(max(took / 2, SHORTEST_BREATH), LONGEST_BREATH)

    # Which actions ----------------------------------------------------------------------------

    async def _look(self) -> None:
        asked_at = self._clock.monotonic()
        records = await self._store.records(actions.KIND)
        self._sightings.look_at(records, asked_at=asked_at, seen_at=self._clock.monotonic())
        self._look_at = self._clock.monotonic() + LOOK_EVERY
        known = {record.name for record in records}
        self._works = {name: work for name, work in self._works.items() if name in known}
        failures: dict[str, StoreError] = {}
        for record in records:
            work = self._works.get(record.name)
            if work is not None and work.record.version == record.version:
                continue
            self._works.pop(record.name, None)  # somebody else has written it
            try:
                await self._consider(record)
            except StoreError as error:  # the others must not wait behind it
                failures[record.name] = error
        await self._bring_back(known)
        if failures and len(failures) == len(records):  # it is not about one of them
            raise next(iter(failures.values()))
        self._tell_of(failures)

    def _tell_of(self, failures: dict[str, StoreError]) -> None:
        """Log which records the store fails at, each once and not with every look."""
        for name in failures.keys() - self._failing:
            log.warning(
                "action %s must wait, since the store fails at it: %s", name, failures[name]
            )
        self._failing = set(failures)

    async def _consider(self, record: Record) -> None:
        """Work on an action if it is this node's, or nobody's any more."""
        try:
            action = actions.read(record)
        except msgspec.MsgspecError:  # another version wrote it, and will work on it
            return
        still_for = self._sightings.still_for(record.name)
        if action.state == "prepared":
            if still_for >= PREPARED_FOR:
                await self._begin(record, action)
        elif action.node == self.name:
            self._works[record.name] = Work(record, action)
        elif still_for >= _taken_up_after(action):
            if action.node is not None:
                log.info("action %s is taken up: its node has left it", action.id)
            await self._put(Work(record, action), replace(action, node=self.name))

    async def _begin(self, record: Record, action: Action) -> None:
        """See to an action whose maker is gone before it let it begin."""
        begun = await self._beginning.begun(action)
        if begun is None:
            await self._store.put_record(record, None)
        else:
            await self._put(Work(record, action), replace(begun, node=self.name))

    async def _bring_back(self, known: set[str]) -> None:
        """Make actions anew that groups wait for: else these would wait for ever."""
        for action in await self._beginning.forgotten(known):
            record = record_of(action, None)
            if await self._store.put_record(None, record):
                log.warning("action %s was lost; it is made anew for its group", action.id)
                await self._begin(record, action)

    # One of them ------------------------------------------------------------------------------

    async def _turn(self, work: Work) -> None:
        """Go on with an action; StoreError: the store has failed, and it has the next turn too."""
        began_at = self._clock.monotonic()
        try:
            await self._try(work)
        except StoreError as error:
            # Nobody knows what became of it: its record is looked at, and its batch read again.
            work.tally = None
            self.look_soon()
            work.failures += 1
            is_quick = self._clock.monotonic() < began_at + LONGEST_FAILURE
            if work.failures < MOST_FAILURES and is_quick and not work.action.troubles:
                raise
            log.warning("action %s has to rest, since the store fails: %s", work.action.id, error)
            await self._put_back(work, "the database did not answer")  # why is for the log
        else:
            work.failures = 0

    async def _try(self, work: Work) -> None:
        try:
            await self._go_on(work)
        except UnsupportedQuery as error:
            await self._give_up(work, str(error))
        except StoreError:
            raise
        except Exception as error:  # it must not stand in the way of the others
            log.exception("action %s failed", work.action.id)
            await self._give_up(work, f"unexpected error: {type(error).__name__}")

    async def _go_on(self, work: Work) -> None:
        action = work.action
        if action.has_ended:
            await self._file(work)
            return
        if await mandate.has_ended(action, self._rules, self._clock.now()):
            await self._give_up(work, "the key that asked for it was revoked")
            return
        action = mandate.noted(action, self._rules)
        tally = work.tally
        if tally is None:
            tally = await self._write(work)
            if tally is None:
                return
        if action.verb == "let go" and tally.failed:
            await self._put_back(work, "timers keep changing")
            return
        action = self._closed(action, tally)
        if action.has_seen_all and action.candidates:
            timers = await self._store.get([each.id for each in action.candidates])
            if await self._put(work, resuming.concluded(action, timers, self._clock.now())):
                await self._write(work)
        elif action.emptying is not None and action.has_seen_all:
            await self._end_pass(work, action)
        elif action.is_canceling or action.has_seen_all:
            await self._end(work, action)
        else:
            await self._next_batch(work, action)

    def _closed(self, action: Action, tally: Tally) -> Action:
        """The action without its batch, of which this became."""
        if action.emptying is not None:
            tally = emptying.counted(tally)
        return replace(
            action,
            tally=action.tally + tally,
            batch=(),
            updated_at=self._clock.now(),
            troubles=0,
            error=None,
        )

    async def _next_batch(self, work: Work, action: Action) -> None:
        part = Part(descending=False, limit=BATCH, after=action.cursor)
        read = work.pages.by_weight(self._store.search)
        page = await search(read, action.tenant, action.wanted, part, most_seen=MOST_SEEN)
        # Asked once they are found: timers of another group of that name are no affair of it.
        if action.emptying is not None and await self._conclusion.has_lost_its_group(action):
            await self._end(work, replace(action, has_seen_all=True))
            return
        place = page.stopped_at
        timers = next(portions(page.timers, _weight, heaviest=HEAVIEST, longest=BATCH), [])
        if len(timers) == BATCH or len(timers) < len(page.timers):
            place = timers[-1].created_at, timers[-1].id
        found = [timer for timer in timers if not is_done(action, timer)]
        action = replace(action, cursor=place, has_seen_all=place is None)
        if action.dry_run:
            action = replace(action, tally=action.tally + self._batches.judge(action, found))
        elif action.verb == "let go":
            action = resuming.planned(action, found, self._clock.now())
        elif action.emptying is not None:
            action = emptying.planned(action, found)
        else:
            action = replace(action, batch=tuple(timer.id for timer in found))
        if await self._put(work, action):
            batch = set(action.batch)
            found = [timer for timer in found if timer.id in batch]
            await self._write(work, found)

    async def _write(self, work: Work, found: Sequence[Timer] = ()) -> Tally | None:
        """Write the batch of an action; who has lost that meanwhile works on it no more."""
        work.tally = await self._batches.write(work.record, work.action, found)
        if work.tally is None:
            self._forget(work.record.name)
        return work.tally

    async def _end_pass(self, work: Work, action: Action) -> None:
        """Delete the group that was to be emptied, or go through it once more."""
        now = self._clock.now()
        if emptying.must_ask(action):
            await self._ask_nodes(work, action)
            return
        problem = emptying.problem(action)
        if problem is None and not emptying.is_deleted(action):
            problem = await self._conclusion.delete_group(action)
            if problem is None:
                revision = self._conclusion.revision
                if await self._put(work, emptying.deleted(action, now, revision)):
                    await self._ask_nodes(work, work.action)
                return
        if problem is None:
            await self._end(work, action)
        elif emptying.is_over(action, now):
            await self._end(work, action, problem)
        elif await self._put(work, emptying.again(action, now)) and emptying.must_rest(action):
            work.rests_until = self._clock.monotonic() + emptying.REST

    async def _ask_nodes(self, work: Work, action: Action) -> None:
        """Begin the last pass when every node knows that the group is deleted."""
        now = self._clock.now()
        is_known = await self._conclusion.is_deletion_known(action)
        if is_known or emptying.is_asked_in_vain(action, now):
            await self._put(work, emptying.after_all_know(action, now))
        else:
            work.rests_until = self._clock.monotonic() + emptying.ASK_EVERY

    async def _end(self, work: Work, action: Action, error: str | None = None) -> None:
        is_canceled = action.is_canceling and not action.has_seen_all
        state: State = "canceled" if is_canceled else "done"
        if error is not None:
            state = "failed"
        now = self._clock.now()
        ended = replace(action, state=state, error=error, updated_at=now, finished_at=now)
        if await self._put(work, ended):
            await self._file(work)

    async def _give_up(self, work: Work, error: str) -> None:
        """End an action that has failed, if it may; else it is tried again."""
        action = work.action
        # Nobody else would let those go that a group has held, and its rule would not be obeyed.
        if action.has_ended or action.verb == "let go":
            await self._put_back(work, error)
            return
        tally = work.tally
        if tally is None:
            tally = await self._batches.given_up(action, error)
        await self._end(work, self._closed(action, tally), error)

    async def _put_back(self, work: Work, error: str) -> None:
        """Leave an action to whoever looks next, after a while."""
        action = replace(work.action, node=None, troubles=work.action.troubles + 1)
        if not action.has_ended:  # else its error says why it has failed
            action = replace(action, error=f"{error}; it is tried again")
        if await self._put(work, action):
            self._works.pop(work.record.name, None)

    async def _file(self, work: Work) -> None:
        """Conclude an action that has ended, and take it off the table."""
        await self._conclusion.conclude(work.action)
        await self._store.put_record(work.record, None)
        self._works.pop(work.record.name, None)
        if (event := self._ends.get(work.action.id)) is not None:
            event.set()

    async def _put(self, work: Work, action: Action) -> bool:
        """Write down how far an action has come; who loses that works on it no more."""
        record = record_of(action, work.record)
        name = record.name
        if not await self._store.put_record(work.record, record):
            self._forget(name)
            return False
        work.record, work.action, work.tally, work.rests_until = record, action, None, 0.0
        self._works[name] = work
        return True

    def _forget(self, name: str) -> None:
        self._works.pop(name, None)
        self.look_soon()


def _taken_up_after(action: Action) -> float:
    """For how many seconds a record stands still before somebody else takes its action up."""
    if action.node is not None:
        return TAKEN_UP_AFTER
    if not action.troubles:
        return 0.0
    return min(SHORTEST_PAUSE * 2.0 ** min(action.troubles - 1, 10), LONGEST_PAUSE)


def _weight(timer: Timer) -> int:
    return timer.weight
