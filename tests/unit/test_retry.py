"""How long after a failure the next attempt starts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.retry import SINGLE_ATTEMPT, RetryPolicy, delay_after

STEADY = RetryPolicy(max_attempts=10, jitter=0)


@pytest.mark.parametrize(
    ("failures", "delay"), [(1, 1000), (2, 2000), (3, 4000), (4, 8000), (13, 3_600_000)]
)
def test_backoff(failures: int, delay: int):
    """Each delay is a multiple of the one before, up to the longest."""
    assert delay_after(STEADY, failures, 0.5) == delay


def test_default_is_one_attempt():
    """Nothing is tried again unless it was asked for."""
    assert SINGLE_ATTEMPT.max_attempts == 1


@pytest.mark.parametrize(("luck", "delay"), [(0.0, 900), (0.5, 1000), (1 - 1e-9, 1100)])
def test_jitter(luck: float, delay: int):
    """Luck moves a delay by up to its share, either way."""
    assert delay_after(RetryPolicy(jitter=0.1), 1, luck) == delay


def test_after_very_many_failures():
    """No number of failures is too many to count with."""
    policy = RetryPolicy(backoff_multiplier=100.0, jitter=0)
    assert delay_after(policy, 1000, 0.5) == policy.max_interval


def test_no_pause_stays_none_after_very_many_failures():
    """Nothing times anything is nothing, also where the anything is beyond all numbers."""
    policy = RetryPolicy(initial_interval=0, backoff_multiplier=100.0, jitter=0)
    assert delay_after(policy, 1000, 0.5) == 0


@given(
    st.builds(
        RetryPolicy,
        max_attempts=st.integers(1, 1000),
        initial_interval=st.integers(0, 10**12),
        backoff_multiplier=st.floats(1, 100),
        max_interval=st.integers(0, 10**12),
        jitter=st.floats(0, 1),
    ),
    st.integers(1, 1000),
    st.floats(0, 1, exclude_max=True),
)
def test_bounds(policy: RetryPolicy, failures: int, luck: float):
    """A delay is never negative, and never longer than the longest and its jitter."""
    delay = delay_after(policy, failures, luck)
    assert 0 <= delay <= policy.max_interval * (1 + policy.jitter) + 1
