"""Retry policy: how many attempts a timer has, and how long after a failure the next one starts."""

import msgspec

from duetime.clock import Millis


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a failed attempt is tried again. The default is one single attempt."""

    max_attempts: int = 1
    initial_interval: Millis = 1_000
    backoff_multiplier: float = 2.0
    max_interval: Millis = 3_600_000
    max_duration: Millis | None = None  # measured from the first attempt
    jitter: float = 0.1  # each delay is moved by up to this share of itself, either way


SINGLE_ATTEMPT = RetryPolicy()


def delay_after(policy: RetryPolicy, failures: int, luck: float) -> Millis:
    """How long to wait after the given number of failures; luck in [0, 1) places the jitter."""
    try:
        backoff = policy.initial_interval * policy.backoff_multiplier ** (failures - 1)
    except OverflowError:
        backoff = policy.max_interval if policy.initial_interval else 0
    delay = min(backoff, policy.max_interval)
    return round(delay * (1 + policy.jitter * (2 * luck - 1)))
