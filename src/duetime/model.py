"""Every change that can happen to a timer, as pure functions ``Timer -> Timer``.

A change never touches a store: it takes the timer as it was read, checks that its status
allows the change, and returns the timer as it should become, one version higher. A store then
writes it if, and only if, the stored version is still the one that was read.

What is legal stands in transitions.py; everything else is refused.
"""

from typing import Any

from msgspec.structs import replace as _with

from duetime import counting
from duetime.clock import Millis
from duetime.retry import delay_after
from duetime.timer import Attempt, Outcome, Progress, Spec, Status, Timer
from duetime.transitions import check

# How long a timer whose group is paused sleeps before somebody looks at it again. Resuming the
# group wakes it; this is for the one that a node put to sleep which had not heard of that.
HOLD_FOR: Millis = 3_600_000

# A timer whose attempts keep ending with their node gone is failed after this many.
MAX_LOST = 10


# What the engine does -------------------------------------------------------------------------


def claim(timer: Timer, node: str, now: Millis, claim_for: Millis) -> Timer:
    """Begin the next attempt: from here on, only this node may send it."""
    check("claim", timer)
    progress = timer.progress
    return _with(  # as _changed does, and quicker: every timer comes through here
        timer,
        version=timer.version + 1,
        updated_at=_dated(timer, now),
        status=Status.EXECUTING,
        wake_at=now + claim_for,
        progress=_with(
            progress,
            attempt=progress.attempt + 1,
            first_attempt_at=now
            if progress.first_attempt_at is None
            else progress.first_attempt_at,
            claimed_at=now,
            claimed_by=node,
            held_since=None,
        ),
    )


def is_too_late(timer: Timer, now: Millis) -> bool:
    """Tell whether the timer's deadline forbids starting an attempt now."""
    return timer.spec.deadline is not None and now > timer.execute_at + timer.spec.deadline


def expire(timer: Timer, now: Millis) -> Timer:
    """Fail a timer that was not started before its deadline."""
    check("expire", timer)
    return _failed(timer, now, counting.too_late(timer.progress))


def hold(timer: Timer, now: Millis, hold_for: Millis = HOLD_FOR) -> Timer:
    """Put a timer that is due to sleep, because its group is paused.

    One that was executing is so no more: its claim has run out. It fell due when that was made.
    """
    check("hold", timer)
    progress = timer.progress
    due_at = progress.claimed_at if timer.status is Status.EXECUTING else timer.wake_at
    return _changed(
        timer,
        now,
        status=Status.PENDING,
        wake_at=now + hold_for,
        progress=_with(
            progress,
            lost=progress.lost + (timer.status is Status.EXECUTING),
            claimed_by=None,
            claimed_at=None,
            held_since=due_at if progress.held_since is None else progress.held_since,
        ),
    )


def let_go(timer: Timer, now: Millis) -> Timer:
    """Wake a timer that was held, as late as it is by now."""
    check("let go", timer)
    held_since = timer.progress.held_since
    return _changed(
        timer,
        now,
        wake_at=timer.wake_at if held_since is None else held_since,
        progress=_with(timer.progress, held_since=None),
    )


def skip(timer: Timer, now: Millis) -> Timer:
    """Drop a timer that fell due while its group was paused, by the rule of the group."""
    check("skip", timer)
    progress = _with(timer.progress, last_error="its group was paused when it was due")
    return _changed(timer, now, status=Status.CANCELED, wake_at=None, progress=progress)


def renew(timer: Timer, now: Millis, claim_for: Millis) -> Timer:
    """Hold on to a claim whose attempt is still under way."""
    check("renew", timer)
    # Only the claim goes on: for the user nothing has changed, so updated_at stays as it is.
    return _with(timer, version=timer.version + 1, wake_at=now + claim_for)


def finish(timer: Timer, outcome: Outcome, now: Millis, luck: float) -> Timer:
    """End an attempt: completed, failed, or pending again.

    That is if the retry policy has one more attempt, or the receiver asked to be called again.
    """
    check("finish", timer)
    if outcome.again_at is not None:
        outcome = counting.heeded(timer.progress, outcome)
        if outcome.again_at is not None:
            return _called_again(timer, outcome, outcome.again_at, now)
    if outcome.ok:
        return _with(  # as above
            timer,
            version=timer.version + 1,
            updated_at=_dated(timer, now),
            status=Status.COMPLETED,
            wake_at=None,
            executed_at=now,
            progress=_with(
                timer.progress,
                lost=0,
                claimed_by=None,
                claimed_at=None,
                outcome=outcome,
                last_error=None,
            ),
        )
    progress = _with(timer.progress, lost=0, claimed_by=None, claimed_at=None, outcome=outcome)
    progress = _with(progress, failures=progress.failures + 1, last_error=outcome.error)
    policy = timer.spec.retry_policy
    again_at = now + delay_after(policy, progress.failures, luck)
    if outcome.retry_at is not None:
        again_at = max(again_at, outcome.retry_at)
    started = timer.progress.first_attempt_at
    if (
        not outcome.retryable
        or progress.failures >= policy.max_attempts
        or (
            policy.max_duration is not None
            and started is not None
            and again_at > started + policy.max_duration
        )
    ):
        return _failed(timer, now, progress)
    if is_too_late(timer, again_at):  # it need not wait for an attempt that would not start
        return _failed(timer, now, counting.too_late(progress))
    return _changed(timer, now, status=Status.PENDING, wake_at=again_at, progress=progress)


def _called_again(timer: Timer, outcome: Outcome, at: Millis, now: Millis) -> Timer:
    """Let a timer wait for the time that its receiver has named; its deadline counts from there."""
    return _changed(
        timer,
        now,
        status=Status.PENDING,
        execute_at=at,
        wake_at=at,
        progress=counting.called_again(timer.progress, outcome),
    )


def release(timer: Timer, now: Millis, *, was_sent: bool) -> Timer:
    """Hand back a claimed timer whose attempt this node will not finish.

    An attempt that was never sent was none: its number is used again.
    """
    check("release", timer)
    progress = timer.progress
    claimed_at, first_attempt_at = progress.claimed_at, progress.first_attempt_at
    if not was_sent and first_attempt_at == claimed_at:
        first_attempt_at = None  # from which max_duration counts
    return _changed(
        timer,
        now,
        status=Status.PENDING,
        # It was due then, and still is: it has not fallen due meanwhile. If it is not due yet, for
        # claims are made a moment ahead, it is so when it was to be.
        wake_at=max(now if claimed_at is None else min(claimed_at, now), timer.execute_at),
        progress=_with(
            progress,
            attempt=progress.attempt - (not was_sent),
            first_attempt_at=first_attempt_at,
            claimed_by=None,
            claimed_at=None,
        ),
    )


def take_up(timer: Timer, node: str, now: Millis, claim_for: Millis) -> Timer:
    """Begin the attempt after one whose claim ran out without an outcome.

    Nobody knows whether the receiver got the lost one, and at least once beats at most once. It
    does not count against max_attempts, but a timer that keeps taking its node down is failed.
    """
    check("take up", timer)
    lost = timer.progress.lost + 1
    if lost >= MAX_LOST:
        error = f"gave up after {lost} attempts in a row whose node was gone before they ended"
        return _failed(timer, now, _with(timer.progress, lost=lost, last_error=error))
    if is_too_late(timer, now):
        error = f"{counting.DEADLINE_PASSED}; the attempt before it was lost with its node"
        return _failed(timer, now, _with(timer.progress, lost=lost, last_error=error))
    return _changed(
        timer,
        now,
        wake_at=now + claim_for,
        progress=_with(
            timer.progress,
            attempt=timer.progress.attempt + 1,
            lost=lost,
            claimed_at=now,
            claimed_by=node,
        ),
    )


def tell(timer: Timer, now: Millis, story: str | None) -> Timer:
    """Put a timer to sleep whose failure is told by another one, or cannot be."""
    check("tell", timer)
    return _changed(timer, now, wake_at=None, progress=_with(timer.progress, story=story))


def attempt_record(before: Timer, after: Timer, outcome: Outcome, now: Millis) -> Attempt:
    """The line of the execution log for the attempt that ``before`` was executing."""
    progress = before.progress
    return Attempt(
        timer=before.id,
        occurrence=progress.occurrence,
        attempt=progress.attempt,
        node=progress.claimed_by or "",
        started_at=progress.claimed_at or now,
        finished_at=now,
        outcome=outcome,
        next_at=after.wake_at if after.status is Status.PENDING else None,
    )


# What the user does ---------------------------------------------------------------------------


def update(timer: Timer, now: Millis, *, spec: Spec, execute_at: Millis) -> Timer:
    """Change what a waiting timer will do, or when.

    If neither what is sent nor its time is another, it goes on as it was: a retry waits on.
    """
    check("update", timer)
    if execute_at == timer.execute_at and spec.callback == timer.spec.callback:
        return _changed(timer, now, spec=spec)
    # A retry with another callback is due now, and not when it was first tried: if its group is
    # paused, it fell due meanwhile.
    due_at = max(execute_at, now) if timer.progress.attempt else execute_at
    return _changed(
        timer,
        now,
        execute_at=execute_at,
        wake_at=None if timer.status is Status.PAUSED else due_at,
        spec=spec,
        progress=counting.begun_anew(timer.progress),
    )


def shift(timer: Timer, now: Millis, by: Millis) -> Timer:
    """Put a waiting timer off by so much, or let it come so much earlier, but not before now.

    That counts from when it would start next. A retry stays one: only the next attempt moves.
    """
    check("shift", timer)
    at = max(max(_due_at(timer), now) + by, now)
    if timer.progress.attempt == 0:
        progress, execute_at = counting.begun_anew(timer.progress), at
    else:
        progress = _with(timer.progress, held_since=None)
        # A paused one has no other place that says when it goes on.
        execute_at = at if timer.status is Status.PAUSED else timer.execute_at
    return _changed(
        timer,
        now,
        execute_at=execute_at,
        wake_at=None if timer.status is Status.PAUSED else at,
        progress=progress,
    )


def replace(
    timer: Timer, now: Millis, *, spec: Spec, execute_at: Millis, fingerprint: str | None
) -> Timer:
    """Give a key new content: whatever came of the old one, this one waits for its time."""
    check("replace", timer)
    return _changed(
        timer,
        now,
        status=Status.PENDING,
        execute_at=execute_at,
        wake_at=execute_at,
        executed_at=None,
        spec=spec,
        progress=counting.begun_anew(timer.progress),
        fingerprint=fingerprint,
    )


def cancel(timer: Timer, now: Millis) -> Timer:
    """Make sure that the timer never starts."""
    check("cancel", timer)
    return _changed(timer, now, status=Status.CANCELED, wake_at=None)


def pause(timer: Timer, now: Millis) -> Timer:
    """Hold a timer back until it is resumed."""
    check("pause", timer)
    # That its group held it is over with this: it falls due anew when it is resumed.
    progress = _with(timer.progress, held_since=None)
    return _changed(timer, now, status=Status.PAUSED, wake_at=None, progress=progress)


def resume(timer: Timer, now: Millis) -> Timer:
    """Let a paused timer go on; if its time passed meanwhile, it is due at once."""
    check("resume", timer)
    return _changed(timer, now, status=Status.PENDING, wake_at=max(timer.execute_at, now))


def fire(timer: Timer, now: Millis) -> Timer:
    """Make a waiting timer due now."""
    check("fire", timer)
    return _changed(
        timer,
        now,
        status=Status.PENDING,
        execute_at=now if now < timer.execute_at or is_too_late(timer, now) else timer.execute_at,
        wake_at=now,
    )


def redrive(timer: Timer, now: Millis) -> Timer:
    """Try a timer again that has failed, now and by the whole of its retry policy.

    It is still the same occurrence for its receiver, and attempts are numbered on. If its deadline
    has passed, that counts from now.
    """
    check("redrive", timer)
    return _changed(
        timer,
        now,
        status=Status.PENDING,
        execute_at=now if is_too_late(timer, now) else timer.execute_at,
        wake_at=now,
        executed_at=None,
        progress=counting.redriven(timer.progress),
    )


def _due_at(timer: Timer) -> Millis:
    """When a waiting timer would start, or should have, if nothing else held it back."""
    if timer.progress.held_since is not None:
        return timer.progress.held_since
    return timer.execute_at if timer.wake_at is None else timer.wake_at


def _changed(timer: Timer, now: Millis, **changes: Any) -> Timer:
    """The next version of a timer, dated: two with the same version are the same."""
    return _with(timer, version=timer.version + 1, updated_at=_dated(timer, now), **changes)


def _dated(timer: Timer, now: Millis) -> Millis:
    """When a timer changes: never before it last did, whatever the clocks of its nodes say.

    Its events are told in the order of these times.
    """
    return max(now, timer.updated_at)


def _failed(timer: Timer, now: Millis, progress: Progress) -> Timer:
    return _changed(
        timer,
        now,
        status=Status.FAILED,
        # Awake as long as somebody is still to be told, so that whoever looks finds it.
        wake_at=None if timer.spec.on_failure is None else now,
        executed_at=now,
        progress=_with(progress, claimed_by=None, claimed_at=None, held_since=None, story=None),
    )
