"""A failed timer that is tried again, and one whose failure is to be told, as changes of a row."""

from msgspec.structs import replace

from duetime import model
from duetime.retry import RetryPolicy
from duetime.timer import HttpCallback, Kind, OnFailure, Outcome, Status, Timer
from tests.factories import NODE, NOW, make_spec, make_timer

LATER = NOW + 3_600_000
DOWN = Outcome(kind=Kind.HTTP, status_code=503, error="HTTP 503", retryable=True)
THRICE = RetryPolicy(max_attempts=3, initial_interval=1_000, jitter=0, max_duration=60_000)
TOLD = OnFailure(callback=HttpCallback(url="https://told.example/"))


def failed(**spec: object) -> Timer:
    """A timer that has used up its attempts."""
    timer = make_timer(spec=make_spec(retry_policy=THRICE, **spec), execute_at=NOW)
    while timer.status is Status.PENDING:
        timer = model.finish(model.claim(timer, NODE, NOW, 10_000), DOWN, NOW, 0.5)
    return timer


def test_a_redrive_has_the_whole_policy_again():
    """Attempts are numbered on, under the same webhook id; failures are counted anew."""
    before = failed()
    timer = model.redrive(before, LATER)
    assert (timer.status, timer.wake_at, timer.execute_at) == (Status.PENDING, LATER, NOW)
    assert (timer.executed_at, timer.updated_at) == (None, LATER)
    assert timer.webhook_id == before.webhook_id
    assert timer.progress.last_error == "HTTP 503"  # until the next attempt says otherwise
    numbers = []
    while timer.status is Status.PENDING:
        claim = model.claim(timer, NODE, LATER, 10_000)
        numbers.append(claim.progress.attempt)
        timer = model.finish(claim, DOWN, LATER, 0.5)
    assert numbers == [4, 5, 6]
    assert timer.status is Status.FAILED


def test_the_longest_duration_counts_anew():
    """max_duration is measured from the first attempt after the redrive."""
    claim = model.claim(model.redrive(failed(), LATER), NODE, LATER, 10_000)
    assert claim.progress.first_attempt_at == LATER
    assert model.finish(claim, DOWN, LATER, 0.5).status is Status.PENDING


def test_a_deadline_that_has_passed_counts_from_the_redrive():
    """As if it were due now; one that has not passed stays."""
    late = model.redrive(failed(deadline=10_000), LATER)
    assert (late.execute_at, model.is_too_late(late, LATER)) == (LATER, False)
    in_time = model.redrive(failed(deadline=10_000), NOW + 9_000)
    assert in_time.execute_at == NOW


def test_losses_are_counted_anew():
    """A timer that was given up because its nodes kept dying has all of its tries again."""
    timer = model.claim(make_timer(execute_at=NOW), NODE, NOW, 10_000)
    while timer.status is Status.EXECUTING:
        timer = model.take_up(timer, NODE, NOW, 10_000)
    claim = model.claim(model.redrive(timer, LATER), NODE, LATER, 10_000)
    assert claim.progress.lost == 0
    assert model.take_up(claim, NODE, LATER, 10_000).status is Status.EXECUTING


def test_a_failure_is_awake_only_if_somebody_wants_to_know():
    """And is not over before they do."""
    silent, loud = failed(), failed(on_failure=TOLD, retention=1_000)
    assert (silent.wake_at, silent.is_over) == (None, True)
    assert (loud.wake_at, loud.is_over, loud.drop_at) == (NOW, False, None)
    told = model.tell(loud, LATER, "story")
    assert (told.wake_at, told.is_over, told.drop_at) == (None, True, LATER + 1_000)
    assert (told.progress.story, told.progress.last_error) == ("story", "HTTP 503")
    assert told.executed_at == loud.executed_at


def test_the_last_story_is_kept_until_the_next():
    """A timer that is redriven still says who has told of it; one that fails again does not."""
    told = model.tell(failed(on_failure=TOLD), NOW, "story")
    again = model.redrive(told, LATER)
    assert again.progress.story == "story"
    claim = model.claim(again, NODE, LATER, 10_000)
    gone = model.finish(claim, replace(DOWN, retryable=False), LATER, 0.5)
    assert (gone.progress.story, gone.wake_at) == (None, LATER)


def test_who_is_told_weighs_something():
    """What users choose counts, so that memory stays bounded."""
    heavy = HttpCallback(url="https://told.example/", headers={"X": "x" * 10_000})
    spec = make_spec(on_failure=OnFailure(callback=heavy))
    assert spec.weight >= 10_000
