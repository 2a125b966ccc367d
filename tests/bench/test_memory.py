"""Memory: growth is counted from when a node is warm, per timer fired since."""

import os

import pytest

from bench.workloads.memory import grown
from duetime.benching.usage import memory_mb, peak_mb

MB = 1024 * 1024


def test_growth_is_counted_from_when_it_is_warm():
    """What caches and pools take at first is no leak."""
    figure, _ = grown([60.0, 90.0, *[91.0] * 7, 98.0], 1_000_000)
    assert figure.measured == pytest.approx(38 * MB / 900_000)  # after the first 100,000
    assert figure.is_met is True


def test_the_warm_up_is_whole_rounds():
    """Of a million in sixteen rounds, two are needed for a hundred thousand."""
    _, end = grown([50.0, 80.0, *[81.0] * 14], 1_000_000)
    assert (end.ceiling, end.ceiling_is, end.measured) == (80.0, "after 125,000", 81.0)


def test_a_leak_is_missed():
    """Two hundred bytes for each timer are the aim."""
    figure, _ = grown([float(50 + 20 * place) for place in range(10)], 1_000_000)
    assert figure.measured == pytest.approx(20 * MB / 100_000)
    assert figure.is_met is False


def test_a_run_that_is_never_warm_says_nothing():
    """It can only have grown."""
    figure, _ = grown([50.0, 60.0, 70.0, 80.0], 8_000)
    assert figure.measured > 200
    assert figure.is_met is None


def test_a_peak_stays():
    """The most that a process ever held is told after it was given back."""
    before = peak_mb(os.getpid())
    held = b"x" * (64 * MB)
    held_mb = memory_mb(os.getpid())
    del held
    assert peak_mb(os.getpid()) >= max(before, held_mb * 0.99)
