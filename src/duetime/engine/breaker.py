"""Breakers: which receivers keep failing, so that nothing is sent to them, and when one is tried.

A receiver that fails so many times in a row, without a success in between, is shut for a few
seconds. Then one attempt is let through, the probe: if that fails too, it is shut for twice as
long, and so on. One that asks with Retry-After not to be called is shut at once, until then.

Each node goes by what it has seen itself, and by what the others tell with their heartbeats
(``nodes.py`` ``TargetReport``). They tell what they decided themselves and never what they have
heard, or else two nodes would keep each other shut for ever. Times that they tell are how long ago
something was, or how long is left: their clocks need not agree.
"""

import logging
import math
import random
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus

from duetime.clock import Clock, Millis
from duetime.nodes import TargetReport
from duetime.timer import Kind, Outcome

log = logging.getLogger("duetime.engine")

FIRST_PAUSE = 5.0  # seconds
LONGEST_ASKED = 3_600.0  # seconds: a receiver that asks for more is tried after this
JITTER = 0.1  # a pause is shorter by up to this part, so that nodes do not probe together
MOST_REMEMBERED = 4096  # receivers that have failed, and likewise those that have answered
TELL_RECOVERY_FOR = 10.0  # seconds: a few heartbeats
IDLE_AFTER = 3_600.0  # seconds without anything to probe it with: then it is forgotten
LONGEST_ERROR = 200  # characters that are kept of a sentence

INSTANT = 1e-6  # a time on the wall clock and one on the other differ by less than that

_FAILED = frozenset({Kind.NETWORK, Kind.TIMEOUT, Kind.TLS, Kind.DNS, Kind.NATS})
_BUSY = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_TELL_WHEN = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})


class Breaker:
    """What is known of one receiver that has failed."""

    __slots__ = (
        "error",
        "failures",
        "heard_until",
        "length",
        "opened_at",
        "probe",
        "since",
        "until",
    )

    def __init__(self) -> None:
        self.failures = 0  # in a row
        self.error: str | None = None  # of the last one
        self.since: float | None = None  # when it was shut first; None: it is not
        self.opened_at = -math.inf  # when this node shut it last
        self.until = -math.inf  # it is shut, by this node
        self.heard_until = -math.inf  # likewise, as others have told
        self.length = 0.0  # of the last pause
        self.probe: str | None = None  # the timer that is tried

    @property
    def probe_at(self) -> float:
        return max(self.until, self.heard_until)


class Breakers:
    """Every receiver that has failed lately. ``most_failures``: 0 is none at all."""

    def __init__(
        self,
        clock: Clock,
        *,
        most_failures: int = 10,
        longest_pause: Millis = 300_000,
        luck: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._most_failures = most_failures
        self._longest_pause = longest_pause / 1000
        self._luck = luck
        self.failing: dict[str, Breaker] = {}  # those that have failed, be they shut or not
        self._answered: dict[str, float] = {}  # when each receiver has last shown that it is well
        self._now = clock.monotonic()  # at the last tick: good enough for that
        self._recovered: dict[str, float] = {}  # when those that were shut have

    # What the engine asks ---------------------------------------------------------------------

    def tick(self) -> None:
        """Look at the clock, which is not asked for every answer."""
        self._now = self._clock.monotonic()

    def places(self, name: str, under_way: int) -> int | None:
        """How many a receiver may have under way, of which it has so many; None: as many as ever.

        What was under way when it was shut is left to end, and one more is the probe.
        """
        breaker = self._shut(name)
        if breaker is None:
            return None
        if self._clock.monotonic() + INSTANT < breaker.probe_at:
            return 0
        return under_way if breaker.probe is not None else under_way + 1

    def may_send(self, name: str, id_: str) -> bool:
        """Tell whether a timer that was claimed for a receiver may be sent still."""
        breaker = self._shut(name)
        if breaker is None:
            return True
        return self._clock.monotonic() + INSTANT >= breaker.probe_at and breaker.probe == id_

    def opens_at(self, name: str) -> float | None:
        """When a receiver is tried that is shut now, on the monotonic clock."""
        breaker = self._shut(name)
        is_over = breaker is None or self._clock.monotonic() + INSTANT >= breaker.probe_at
        return None if breaker is None or is_over else breaker.probe_at

    def is_shut(self, name: str) -> bool:
        """Tell whether a receiver keeps failing, be it that it may be tried now."""
        return self._shut(name) is not None

    def is_probed(self, name: str) -> bool:
        """Tell whether one attempt is let through, to see whether a receiver is well again."""
        breaker = self._shut(name)
        return breaker is not None and breaker.probe is not None

    def begun(self, name: str, id_: str) -> None:
        """Take note that a timer has a place at a receiver: it may be the probe."""
        breaker = self._shut(name)
        if breaker is not None and breaker.probe is None and self.opens_at(name) is None:
            breaker.probe = id_

    def left(self, name: str, id_: str) -> None:
        """Take note that a timer has given its place back, be it without having been sent."""
        breaker = self.failing.get(name)
        if breaker is not None and breaker.probe == id_:
            breaker.probe = None

    def ended(self, name: str, id_: str, outcome: Outcome) -> bool:
        """Learn from an attempt; tells whether the receiver was shut by it, or opened."""
        if not self._most_failures:
            return False
        if outcome.kind is Kind.OK or (outcome.status_code is not None and not _is_bad(outcome)):
            self._answered[name] = self._now
            _make_room(self._answered)
            return bool(self.failing) and self._is_well(name)
        if not _is_bad(outcome):
            return False
        breaker = self.failing.get(name)
        if breaker is None:
            breaker = self.failing[name] = Breaker()
            _make_room(self.failing)
        breaker.failures += 1
        breaker.error = outcome.error and outcome.error[:LONGEST_ERROR]
        asked_until = self._asked_until(outcome)
        if breaker.since is not None and breaker.probe != id_:
            # It was under way already when the receiver was shut.
            breaker.until = max(breaker.until, asked_until)
            return False
        is_new = breaker.since is None and breaker.failures < self._most_failures
        if is_new and asked_until == -math.inf:
            return False
        self._open(name, breaker, asked_until)
        return True

    def reset(self, name: str) -> None:
        """Forget all that was wrong with a receiver: somebody has said that it is well."""
        breaker = self.failing.pop(name, None)
        if breaker is not None and breaker.since is not None and breaker.length:
            log.info("%s is sent to again: it was resumed by hand", _told(name))
        self._answered[name] = self._clock.monotonic()
        _make_room(self._answered)

    # What nodes tell each other ---------------------------------------------------------------

    def remarkable(self) -> list[str]:
        """Which receivers the others must hear of: those that are shut, or have just recovered."""
        now = self._clock.monotonic()
        for name, breaker in list(self.failing.items()):
            is_idle = breaker.probe is None and now > breaker.probe_at + IDLE_AFTER
            if breaker.since is not None and is_idle:
                del self.failing[name]
        for name, at in list(self._recovered.items()):
            if now > at + TELL_RECOVERY_FOR:
                del self._recovered[name]
        shut = [name for name, breaker in self.failing.items() if breaker.since is not None]
        return [*shut, *(self._recovered.keys() - shut)]

    def report(self, name: str) -> TargetReport:
        """What to tell of a receiver."""
        now = self._clock.monotonic()
        breaker = self._shut(name)
        if breaker is None or breaker.since is None:
            at = self._recovered.get(name)
            return TargetReport(recovered_ago=None if at is None else _millis(now - at))
        return TargetReport(
            failures=breaker.failures,
            error=breaker.error,
            failing_for=_millis(now - breaker.since),
            probe_in=_millis(breaker.probe_at - now),
            shut_ago=_millis(now - breaker.opened_at),
            shut_for=_millis(breaker.until - now),
            pause=_millis(breaker.length),
        )

    def hear(self, told: Iterable[tuple[Mapping[str, TargetReport], float]]) -> list[str]:
        """Learn from what every other node tells, and told when, on this one's monotonic clock.

        The answer is which receivers may be tried sooner than it was known before.
        """
        if not self._most_failures:
            return []
        before = {
            name: breaker.probe_at
            for name, breaker in self.failing.items()
            if breaker.since is not None
        }
        for name in before:  # what nobody tells any more is not true any more
            self.failing[name].heard_until = -math.inf
        now = self._clock.monotonic()
        for reports, told_at in told:
            for name, report in reports.items():
                if report.recovered_ago is not None:
                    self._hear_of_recovery(name, told_at - report.recovered_ago / 1000)
                elif told_at + report.shut_for / 1000 > now:
                    self._hear_of_failures(name, report, told_at)
        return [name for name, at in before.items() if self.failing[name].probe_at < at]

    def _hear_of_recovery(self, name: str, at: float) -> None:
        """Try a receiver now that is well for another node, if it was shut before that."""
        breaker = self._shut(name)
        if breaker is not None and breaker.opened_at < at:
            breaker.until = min(breaker.until, self._clock.monotonic())

    def _hear_of_failures(self, name: str, report: TargetReport, told_at: float) -> None:
        """Shut a receiver for as long as another node, unless it has been well here since."""
        shut_at = told_at - report.shut_ago / 1000
        if self._answered.get(name, -math.inf) > shut_at:
            return
        breaker = self.failing.get(name)
        if breaker is None:
            if len(self.failing) >= MOST_REMEMBERED:
                return
            breaker = self.failing[name] = Breaker()
        if breaker.since is None:
            breaker.since = breaker.opened_at = shut_at
        if breaker.probe is None:  # else it is about to be known better
            breaker.heard_until = max(breaker.heard_until, told_at + report.shut_for / 1000)
        breaker.length = max(breaker.length, report.pause / 1000)
        breaker.failures = max(breaker.failures, report.failures)
        breaker.error = breaker.error or report.error

    # Inside -----------------------------------------------------------------------------------

    def _shut(self, name: str) -> Breaker | None:
        breaker = self.failing.get(name)
        return None if breaker is None or breaker.since is None else breaker

    def _open(self, name: str, breaker: Breaker, asked_until: float) -> None:
        now = self._clock.monotonic()
        was_told, has_asked = breaker.length > 0, asked_until > -math.inf
        breaker.since = now if breaker.since is None else breaker.since
        breaker.opened_at = now
        breaker.probe = None
        breaker.until = asked_until
        if not has_asked:
            breaker.length = min(max(2 * breaker.length, FIRST_PAUSE), self._longest_pause)
            breaker.until = now + breaker.length * (1 - JITTER * self._luck())
        if not has_asked and not was_told:  # one that asks for it does so often, and is well
            log.warning(
                "%s keeps failing (%s): nothing is sent to it until one callback has tried it",
                _told(name),
                breaker.error,
            )

    def _is_well(self, name: str) -> bool:
        breaker = self.failing.pop(name, None)
        if breaker is None or breaker.since is None:
            return False
        now = self._clock.monotonic()
        self._recovered[name] = now
        _make_room(self._recovered)
        if breaker.length:  # it was told that it failed
            log.info("%s is well again after %.1f s", _told(name), now - breaker.since)
        return True

    def _asked_until(self, outcome: Outcome) -> float:
        """Until when a receiver has asked not to be called, if it has."""
        if outcome.retry_at is None or outcome.status_code not in _TELL_WHEN:
            return -math.inf
        asked = (outcome.retry_at - self._clock.now()) / 1000
        return self._clock.monotonic() + min(asked, LONGEST_ASKED) if asked > 0 else -math.inf


def _is_bad(outcome: Outcome) -> bool:
    """Tell whether an attempt says that its receiver is not well, and not just its timer."""
    if outcome.status_code is None:
        return outcome.retryable and outcome.kind in _FAILED
    return outcome.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR or outcome.status_code in _BUSY


def _told(name: str) -> str:
    """A receiver as the log calls it; whose it is stands first in its name."""
    tenant, _, target = name.partition(" ")
    return f"the target {target} of the tenant {tenant}"


def _millis(seconds: float) -> Millis:
    return max(round(1000 * seconds), 0) if math.isfinite(seconds) else 0


def _make_room(kept: dict[str, Breaker] | dict[str, float]) -> None:
    if len(kept) > MOST_REMEMBERED:
        del kept[next(iter(kept))]
