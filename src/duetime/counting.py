"""Counting: how far a timer has come after what happened to it, as functions of its progress."""

from msgspec.structs import replace

from duetime.timer import Kind, Outcome, Progress

# A receiver that asks to be called again, and again, is not called more often than this.
MOST_AGAIN = 1_000

DEADLINE_PASSED = "deadline passed"


def begun_anew(progress: Progress) -> Progress:
    """Start counting anew: a receiver that saw the old content must not take it for a repeat."""
    was_tried = progress.attempt > 0
    return Progress(
        occurrence=progress.occurrence + was_tried, action=progress.action, story=progress.story
    )


def called_again(progress: Progress, outcome: Outcome) -> Progress:
    """Start counting anew because the receiver asked for it: that is no repeat either."""
    return Progress(
        occurrence=progress.occurrence + 1,
        again=progress.again + 1,
        action=progress.action,
        outcome=outcome,
        story=progress.story,
    )


def heeded(progress: Progress, outcome: Outcome) -> Outcome:
    """The outcome, unless it asks to be called again for once too often: then it is a failure."""
    if outcome.again_at is None or progress.again < MOST_AGAIN:
        return outcome
    error = f"the receiver asked to be called again {MOST_AGAIN:,} times in a row"
    return replace(outcome, kind=Kind.HTTP, error=error, retryable=False, again_at=None)


def redriven(progress: Progress) -> Progress:
    """The whole retry policy is available again; attempts are numbered on."""
    return replace(progress, failures=0, lost=0, again=0, first_attempt_at=None)


def too_late(progress: Progress) -> Progress:
    """Say that the deadline has passed, and how the last attempt failed, if there was one."""
    before = progress.last_error
    if before is None:
        return replace(progress, last_error=DEADLINE_PASSED)
    if before.startswith(DEADLINE_PASSED):
        return progress
    return replace(progress, last_error=f"{DEADLINE_PASSED}; the attempt before failed: {before}")
