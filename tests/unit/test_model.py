"""Every cell of the table action x status, and what each change does to a row."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from duetime import model
from duetime.errors import IllegalTransition
from duetime.model import MAX_LOST
from duetime.retry import RetryPolicy
from duetime.timer import FINISHED, LIGHTEST, HttpCallback, Kind, Outcome, Progress, Status, Timer
from duetime.transitions import TRANSITIONS
from tests.factories import NODE, NOW, make_spec, make_timer

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
LATER = NOW + 5000
OK = Outcome(kind=Kind.OK, status_code=200)
REFUSED = Outcome(kind=Kind.HTTP, status_code=404, error="HTTP 404")
TIMED_OUT = Outcome(kind=Kind.TIMEOUT, error="timed out", retryable=True)
AGAIN = Outcome(kind=Kind.OK, status_code=200, again_at=LATER + 60_000)
THRICE = RetryPolicy(max_attempts=3, initial_interval=1000, jitter=0)


def in_status(status: Status, **progress: int) -> Timer:
    """A timer with this status, as the transitions would have left it."""
    spec = make_spec(retry_policy=THRICE, deadline=100_000)
    waiting = make_timer(spec=spec, execute_at=NOW, progress=Progress(**progress))
    by_status: dict[Status, Callable[[], Timer]] = {
        Status.PENDING: lambda: waiting,
        Status.EXECUTING: lambda: model.claim(waiting, NODE, NOW, 10_000),
        Status.COMPLETED: lambda: model.finish(by_status[Status.EXECUTING](), OK, NOW, 0.5),
        Status.FAILED: lambda: model.finish(by_status[Status.EXECUTING](), REFUSED, NOW, 0.5),
        Status.CANCELED: lambda: model.cancel(waiting, NOW),
        Status.PAUSED: lambda: model.pause(waiting, NOW),
    }
    timer = by_status[status]()
    assert timer.status is status
    return timer


ACTIONS: dict[str, list[Callable[[Timer], Timer]]] = {
    "claim": [lambda t: model.claim(t, NODE, LATER, 10_000)],
    "expire": [lambda t: model.expire(t, LATER)],
    "hold": [lambda t: model.hold(t, LATER)],
    "let go": [
        lambda t: model.let_go(t, LATER),
        lambda t: model.let_go(replace(t, progress=replace(t.progress, held_since=NOW)), LATER),
    ],
    "skip": [lambda t: model.skip(t, LATER)],
    "renew": [lambda t: model.renew(t, LATER, 10_000)],
    "finish": [
        lambda t: model.finish(t, OK, LATER, 0.5),
        lambda t: model.finish(t, REFUSED, LATER, 0.5),
        lambda t: model.finish(t, TIMED_OUT, LATER, 0.5),
        lambda t: model.finish(t, AGAIN, LATER, 0.5),
    ],
    "release": [
        lambda t: model.release(t, LATER, was_sent=True),
        lambda t: model.release(t, LATER, was_sent=False),
    ],
    "take up": [
        lambda t: model.take_up(t, "node-2", LATER, 10_000),
        lambda t: model.take_up(
            replace(t, progress=replace(t.progress, lost=MAX_LOST - 1)), "node-2", LATER, 10_000
        ),
    ],
    "update": [
        lambda t: model.update(t, LATER, spec=t.spec, execute_at=LATER + 1000),
        lambda t: model.update(t, LATER, spec=t.spec, execute_at=t.execute_at),
    ],
    "shift": [
        lambda t: model.shift(t, LATER, 1000),
        lambda t: model.shift(t, LATER, -1000),
    ],
    "replace": [
        lambda t: model.replace(t, LATER, spec=t.spec, execute_at=LATER + 1000, fingerprint="f")
    ],
    "cancel": [lambda t: model.cancel(t, LATER)],
    "pause": [lambda t: model.pause(t, LATER)],
    "resume": [lambda t: model.resume(t, LATER)],
    "fire": [lambda t: model.fire(t, LATER)],
    "redrive": [lambda t: model.redrive(t, LATER)],
    "tell": [lambda t: model.tell(t, LATER, "story"), lambda t: model.tell(t, LATER, None)],
}


def test_every_action_is_tried():
    """The table of this test has every action of the model's."""
    assert set(ACTIONS) == set(TRANSITIONS)


def documented() -> dict[str, dict[Status, set[Status]]]:
    """The table "action | from | to" of docs/architecture.md."""
    table = ARCHITECTURE.read_text().partition("| action | from | to |\n|---|---|---|\n")[2]
    found = {}
    for row in table.partition("\n\n")[0].splitlines():
        action, before, after = (cell.strip() for cell in row.strip("|").split("|"))
        _, but, exception = before.rpartition("all but ")
        froms = set(Status) - {Status(exception)} if but else set(map(Status, before.split(", ")))
        found[action] = {
            status: {status} if after == "the same" else set(map(Status, after.split(", ")))
            for status in froms
        }
    return found


def test_the_table_is_the_documented_one():
    """The code allows exactly what the table of docs/architecture.md says."""
    assert documented() == {
        action: {before: set(after) for before, after in row.items()}
        for action, row in TRANSITIONS.items()
    }


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("action", ACTIONS)
def test_cell(action: str, status: Status):
    """A legal action leads only where the table says; any other is refused in P's words."""
    before = in_status(status)
    reached = set()
    for act in ACTIONS[action]:
        if status in TRANSITIONS[action]:
            after = act(before)
            reached.add(after.status)
            assert_is_sound(before, after)
        else:
            with pytest.raises(IllegalTransition) as refused:
                act(before)
            assert str(refused.value) == f"cannot {action} timer with status '{status}'"
    assert reached == set(TRANSITIONS[action].get(status, ()))


def assert_is_sound(before: Timer, after: Timer) -> None:
    """What holds of every row after every change."""
    assert after.version == before.version + 1
    assert (after.id, after.tenant, after.group, after.timer_id, after.created_at) == (
        before.id,
        before.tenant,
        before.group,
        before.timer_id,
        before.created_at,
    )
    is_waking = after.status in {Status.PENDING, Status.EXECUTING}
    assert (after.wake_at is not None) == is_waking
    assert (after.executed_at is not None) == (after.status in {Status.COMPLETED, Status.FAILED})
    assert (after.progress.claimed_by is not None) == (after.status is Status.EXECUTING)
    assert (after.progress.claimed_at is not None) == (after.status is Status.EXECUTING)
    assert after.updated_at >= before.updated_at


@pytest.mark.parametrize("action", sorted(set(ACTIONS) - {"renew"}))
def test_change_is_dated(action: str):
    """Whatever changes a timer, its row says when that was."""
    for status in TRANSITIONS[action]:
        assert {act(in_status(status)).updated_at for act in ACTIONS[action]} == {LATER}


def test_finished_means_finished():
    """Of what is finished, only new content makes a timer again, or a redrive if it failed."""
    for status in FINISHED:
        allowed = {action for action, table in TRANSITIONS.items() if status in table}
        assert allowed == {"replace"} | ({"redrive", "tell"} if status is Status.FAILED else set())


def test_table_is_complete():
    """Every status that the table leads to is one, and pending is reached from everywhere else."""
    reached = {status for row in TRANSITIONS.values() for to in row.values() for status in to}
    assert reached == set(Status)


def test_claim():
    """A claim counts an attempt, remembers the first one, and says until when it holds."""
    timer = model.claim(in_status(Status.PENDING), "n", NOW, 10_000)
    assert timer.wake_at == NOW + 10_000
    progress = timer.progress
    assert (progress.attempt, progress.first_attempt_at, progress.claimed_by) == (1, NOW, "n")
    again = model.claim(model.release(timer, LATER, was_sent=True), "m", LATER, 10_000)
    assert (again.progress.attempt, again.progress.first_attempt_at) == (2, NOW)
    unsent = model.claim(model.release(timer, LATER, was_sent=False), "m", LATER, 10_000)
    assert (unsent.progress.attempt, unsent.progress.first_attempt_at) == (1, LATER)
    later = model.claim(model.release(again, LATER, was_sent=False), "m", LATER + 1, 10_000)
    assert (later.progress.attempt, later.progress.first_attempt_at) == (2, NOW)


def test_renewal_is_no_change_of_the_timer():
    """To hold on to a claim moves its end and nothing else that a user could see."""
    claimed = in_status(Status.EXECUTING)
    renewed = model.renew(claimed, LATER, 10_000)
    assert renewed.wake_at == LATER + 10_000
    assert (renewed.updated_at, renewed.progress) == (claimed.updated_at, claimed.progress)


@pytest.mark.parametrize("clock", [NOW - 3_600_000, NOW - 1])
def test_a_timer_is_never_dated_before_it_last_changed(clock: int):
    """Its nodes' clocks may disagree: its changes stay in the order of their versions."""
    timer = model.update(
        in_status(Status.PENDING), LATER, spec=make_spec(name="new"), execute_at=LATER
    )
    for change in (
        lambda: model.cancel(timer, clock),
        lambda: model.pause(timer, clock),
        lambda: model.claim(timer, NODE, clock, 10_000),
        lambda: model.finish(model.claim(timer, NODE, clock, 10_000), OK, clock, 0.5),
    ):
        assert change().updated_at == LATER


def test_retries_until_the_last():
    """A failure that may pass is tried again after its delay, until the attempts are used up."""
    timer = in_status(Status.PENDING)
    for delay in (1000, 2000):
        timer = model.finish(model.claim(timer, NODE, NOW, 10_000), TIMED_OUT, NOW, 0.5)
        assert (timer.status, timer.wake_at) == (Status.PENDING, NOW + delay)
        assert timer.execute_at == NOW
    timer = model.finish(model.claim(timer, NODE, NOW, 10_000), TIMED_OUT, NOW, 0.5)
    assert (timer.status, timer.progress.last_error) == (Status.FAILED, "timed out")
    assert timer.executed_at == NOW


def test_refusal_is_not_retried():
    """A failure that will not pass is final, however many attempts are left."""
    timer = model.finish(in_status(Status.EXECUTING), REFUSED, NOW, 0.5)
    assert (timer.status, timer.progress.failures) == (Status.FAILED, 1)
    assert timer.progress.outcome == REFUSED


def test_receiver_may_ask_for_more_time():
    """Retry-After moves the next attempt back, never forward."""
    for asked, at in ((NOW + 60_000, NOW + 60_000), (NOW + 1, NOW + 1000)):
        outcome = replace(TIMED_OUT, retry_at=asked)
        assert model.finish(in_status(Status.EXECUTING), outcome, NOW, 0.5).wake_at == at


def test_max_duration():
    """No attempt starts later than max_duration after the first one."""
    policy = replace(THRICE, max_duration=1500)
    timer = make_timer(spec=make_spec(retry_policy=policy))
    claimed = model.claim(timer, NODE, NOW, 10_000)
    assert model.finish(claimed, TIMED_OUT, NOW + 500, 0.5).status is Status.PENDING
    assert model.finish(claimed, TIMED_OUT, NOW + 501, 0.5).status is Status.FAILED


def test_success_forgets_the_error():
    """A timer that got through in the end has no last_error."""
    timer = model.finish(in_status(Status.EXECUTING), TIMED_OUT, NOW, 0.5)
    assert timer.progress.last_error == "timed out"
    done = model.finish(model.claim(timer, NODE, LATER, 10_000), OK, LATER, 0.5)
    assert (done.progress.last_error, done.executed_at) == (None, LATER)


@pytest.mark.promise("own-number")
def test_lost_attempts_do_not_count():
    """An attempt whose node died is taken up with the next number, and is not a failure."""
    timer = model.take_up(in_status(Status.EXECUTING), "node-2", LATER, 10_000)
    progress = timer.progress
    assert (progress.attempt, progress.lost, progress.failures) == (2, 1, 0)
    assert (progress.claimed_by, timer.wake_at) == ("node-2", LATER + 10_000)
    assert (progress.claimed_at, progress.first_attempt_at) == (LATER, NOW)


def test_lost_attempts_are_bounded():
    """A timer that keeps killing its node is failed in the end, and says why."""
    timer = in_status(Status.EXECUTING)
    for _ in range(MAX_LOST - 1):
        timer = model.take_up(timer, "node-2", LATER, 10_000)
        assert timer.status is Status.EXECUTING
    timer = model.take_up(timer, "node-2", LATER, 10_000)
    assert (timer.status, timer.progress.lost) == (Status.FAILED, MAX_LOST)
    assert timer.progress.last_error.startswith(f"gave up after {MAX_LOST} attempts in a row")


def test_outcome_ends_a_row_of_losses():
    """Only losses in a row are counted."""
    timer = model.take_up(in_status(Status.EXECUTING), "node-2", LATER, 10_000)
    assert model.finish(timer, TIMED_OUT, LATER, 0.5).progress.lost == 0


@pytest.mark.parametrize(("now", "is_late"), [(NOW + 100_000, False), (NOW + 100_001, True)])
def test_deadline(now: int, is_late: bool):  # noqa: FBT001
    """A deadline counts from execute_at, and its last moment is still in time."""
    assert model.is_too_late(in_status(Status.PENDING), now) is is_late


def test_expired():
    """A timer that was too late is failed, and says so."""
    timer = model.expire(in_status(Status.PENDING), LATER)
    assert (timer.status, timer.progress.last_error) == (Status.FAILED, "deadline passed")


@pytest.mark.promise("late-fires")
def test_no_deadline():
    """Without a deadline, nothing is ever too late."""
    assert not model.is_too_late(make_timer(), NOW * 2)


@pytest.mark.promise("late-fires")
def test_fire_keeps_the_deadline_in_reach():
    """Firing a timer whose deadline has passed moves execute_at, so that it does start."""
    fired = model.fire(in_status(Status.PENDING), NOW + 500_000)
    assert (fired.execute_at, fired.wake_at) == (NOW + 500_000, NOW + 500_000)
    assert not model.is_too_late(fired, NOW + 500_000)
    in_time = model.fire(in_status(Status.PENDING), NOW + 500)
    assert (in_time.execute_at, in_time.wake_at) == (NOW, NOW + 500)


def test_fire_brings_the_time_forward():
    """A timer that was fired ahead of its time was due then, and its deadline counts from there."""
    fired = model.fire(make_timer(execute_at=LATER), NOW)
    assert (fired.execute_at, fired.wake_at) == (NOW, NOW)


@pytest.mark.parametrize(("now", "wakes_at"), [(NOW - 500, NOW), (NOW + 500, NOW + 500)])
def test_resume(now: int, wakes_at: int):
    """A resumed timer waits for its time, or is due at once if that has passed; its time stays."""
    resumed = model.resume(in_status(Status.PAUSED), now)
    assert (resumed.execute_at, resumed.wake_at) == (NOW, wakes_at)


def test_update():
    """An update changes what a timer does and when, and a paused one stays asleep."""
    spec = make_spec(name="another")
    for status, wakes_at in ((Status.PENDING, LATER), (Status.PAUSED, None)):
        changed = model.update(in_status(status), NOW, spec=spec, execute_at=LATER)
        assert (changed.spec, changed.execute_at, changed.wake_at) == (spec, LATER, wakes_at)


def test_update_of_neither_time_nor_callback():
    """A retry waits on with its attempts, one that is held stays so, and one that is paused too."""
    retry = model.finish(in_status(Status.EXECUTING), TIMED_OUT, NOW, 0.5)
    for timer in (retry, model.hold(retry, LATER), model.pause(retry, LATER)):
        spec = replace(timer.spec, tags=("a",), retry_policy=replace(THRICE, max_attempts=9))
        changed = model.update(timer, LATER, spec=spec, execute_at=timer.execute_at)
        assert changed == replace(timer, version=timer.version + 1, updated_at=LATER, spec=spec)


def test_update_of_the_callback_of_a_retry():
    """It is due at once, and begins anew: what the receiver gets is something else."""
    retry = model.finish(in_status(Status.EXECUTING), TIMED_OUT, NOW, 0.5)
    spec = replace(retry.spec, callback=HttpCallback(url="https://example.com/other"))
    changed = model.update(retry, NOW, spec=spec, execute_at=retry.execute_at)
    assert (changed.wake_at, changed.progress) == (NOW, Progress(occurrence=2))
    later = model.update(model.hold(retry, LATER), LATER, spec=spec, execute_at=retry.execute_at)
    assert model.hold(later, LATER).progress.held_since == LATER  # it fell due just now


@pytest.mark.parametrize(("by", "after"), [(1000, 3000), (-500, 1500), (-2000, 0), (-3000, 0)])
def test_shift(by: int, after: int):
    """A timer comes so much later or earlier, but not before now; a paused one stays asleep."""
    now = NOW - 2000
    for status in (Status.PENDING, Status.PAUSED):
        shifted = model.shift(in_status(status), now, by)
        assert shifted.execute_at == now + after
        assert shifted.wake_at == (None if status is Status.PAUSED else now + after)
        assert shifted.progress == Progress()


@pytest.mark.parametrize(("by", "after"), [(1000, 1900), (-500, 400), (-2000, 0)])
def test_shift_of_a_retry(by: int, after: int):
    """Its next attempt moves from where it was, and all that was counted stays."""
    retry = model.finish(in_status(Status.EXECUTING), TIMED_OUT, NOW, 0.5)
    now = NOW + 100
    shifted = model.shift(retry, now, by)
    assert (shifted.wake_at, shifted.execute_at) == (now + after, retry.execute_at)
    assert shifted.progress == retry.progress


def test_shift_of_a_retry_that_is_paused():
    """It goes on when it shall, and is tried no more often than before."""
    retry = model.finish(in_status(Status.EXECUTING), TIMED_OUT, NOW, 0.5)
    shifted = model.shift(model.pause(retry, LATER), LATER, 1000)
    resumed = model.resume(shifted, LATER)
    assert (resumed.wake_at, resumed.progress) == (LATER + 1000, retry.progress)


def test_shift_of_what_is_due():
    """One that should have started, or is held by its group, is put off from now on."""
    due = in_status(Status.PENDING)
    for timer in (due, model.hold(due, NOW)):
        shifted = model.shift(timer, LATER, 1000)
        assert (shifted.wake_at, shifted.execute_at) == (LATER + 1000, LATER + 1000)
        assert shifted.progress.held_since is None
        assert model.shift(timer, LATER, -1000).wake_at == LATER


def test_replace():
    """New content under an old key leaves nothing of the old: neither its end nor its attempts."""
    spec = make_spec(name="another")
    old = in_status(Status.FAILED)
    new = model.replace(old, NOW, spec=spec, execute_at=LATER, fingerprint="f")
    assert (new.spec, new.fingerprint) == (spec, "f")
    assert (new.execute_at, new.wake_at, new.executed_at) == (LATER, LATER, None)
    assert new.progress == Progress(occurrence=2)


@pytest.mark.promise("own-number")
def test_new_content_is_a_new_occurrence():
    """After an attempt, an update starts a new occurrence, so that no receiver drops it."""
    untried = in_status(Status.PENDING)
    changed = model.update(untried, LATER, spec=make_spec(), execute_at=LATER)
    assert changed.webhook_id == untried.webhook_id
    tried = model.finish(in_status(Status.EXECUTING), TIMED_OUT, NOW, 0.5)
    changed = model.update(tried, LATER, spec=make_spec(), execute_at=LATER)
    assert changed.webhook_id == f"{tried.id}-2"
    assert changed.progress == Progress(occurrence=2)


def test_attempt_record():
    """The log says who tried when, what came of it, and when comes the next."""
    before = in_status(Status.EXECUTING)
    after = model.finish(before, TIMED_OUT, LATER, 0.5)
    line = model.attempt_record(before, after, TIMED_OUT, LATER)
    assert (line.timer, line.node, line.occurrence, line.attempt) == (before.id, NODE, 1, 1)
    assert (line.started_at, line.finished_at, line.next_at) == (NOW, LATER, after.wake_at)
    done = model.finish(before, OK, LATER, 0.5)
    assert model.attempt_record(before, done, OK, LATER).next_at is None


def test_record_of_a_lost_attempt():
    """The log names the node that was lost, and no next time: the next attempt has begun."""
    before = in_status(Status.EXECUTING)
    after = model.take_up(before, "node-2", LATER, 10_000)
    line = model.attempt_record(before, after, Outcome(kind=Kind.LOST), LATER)
    assert (line.node, line.attempt, line.started_at, line.next_at) == (NODE, 1, NOW, None)


def test_weight():
    """A timer weighs what its user sent, byte for byte, and the same for the rest as any other."""
    bare = make_timer()
    assert bare.weight == LIGHTEST
    callback = HttpCallback(
        url="https://example.com/hook", headers={"x-a": "12345"}, payload=Raw(b"[1,2,3]")
    )
    heavy = make_timer(spec=make_spec(callback=callback, metadata=Raw(b"{}")))
    assert heavy.weight == LIGHTEST + len("x-a12345") + len("[1,2,3]") + len("{}")


@given(st.lists(st.sampled_from(sorted(ACTIONS)), max_size=30), st.data())
def test_any_walk_is_sound(walk: list[str], data: st.DataObject):
    """Whatever happens to a timer in whatever order, its row stays sound."""
    timer = in_status(Status.PENDING)
    for action in walk:
        act = data.draw(st.sampled_from(ACTIONS[action]))
        if timer.status in TRANSITIONS[action]:
            after = act(timer)
            assert_is_sound(timer, after)
            assert after.status in TRANSITIONS[action][timer.status]
            timer = after
        else:
            with pytest.raises(IllegalTransition):
                act(timer)


def test_a_timer_of_a_paused_group_sleeps_and_wakes_as_late_as_it_is():
    """It forgets nothing of when it was due, however often it is put to sleep again."""
    timer = in_status(Status.PENDING)
    held = model.hold(timer, LATER)
    assert held.progress.held_since == timer.wake_at
    assert held.wake_at == LATER + model.HOLD_FOR
    again = model.hold(held, LATER + model.HOLD_FOR)
    assert again.progress.held_since == timer.wake_at
    let_go = model.let_go(again, again.updated_at)
    assert (let_go.wake_at, let_go.progress) == (timer.wake_at, timer.progress)
    assert model.claim(held, NODE, LATER, 10_000).progress.held_since is None
    assert model.update(held, LATER, spec=held.spec, execute_at=LATER).progress.held_since is None


def test_a_timer_that_was_held_and_is_paused_by_itself_is_held_no_more():
    """When it goes on it falls due anew, and not when its group held it."""
    paused = model.pause(model.hold(in_status(Status.PENDING), LATER), LATER)
    assert paused.progress.held_since is None
    resumed = model.resume(paused, LATER + 1)
    assert (resumed.wake_at, resumed.progress.held_since) == (LATER + 1, None)


def test_an_attempt_that_was_lost_in_a_paused_group_counts_as_lost():
    """Its claim has run out: it is pending, and the next attempt has the next number."""
    executing = in_status(Status.EXECUTING, lost=2)
    held = model.hold(executing, LATER)
    assert (held.progress.attempt, held.progress.lost) == (executing.progress.attempt, 3)
    assert held.progress.held_since == executing.progress.claimed_at


def test_what_a_bulk_action_changed_is_known_though_the_content_is_new():
    """Who takes the action up again must not change it twice."""
    progress = Progress(action="a", attempt=2)
    timer = replace(in_status(Status.PENDING), progress=progress)
    updated = model.update(timer, LATER, spec=timer.spec, execute_at=LATER)
    assert updated.progress == Progress(action="a", occurrence=2)
