"""The supervisor's judgement: when a worker that died is replaced, and when that is of no use."""

import pytest

from duetime.cli.child import fate, is_as_told
from duetime.cli.supervisor import EARLY, Seat


@pytest.fixture
def seat():
    return Seat(child=None)


def test_the_pause_grows_with_every_early_death(seat):
    """And the fifth in a row is the last."""
    assert [seat.lost(age=1.0) for _ in range(5)] == [0.5, 1.0, 2.0, 4.0, None]


def test_a_worker_that_ran_well_resets_the_count(seat):
    """Deaths that are far apart never end the service."""
    for _ in range(4):
        seat.lost(age=1.0)
    assert seat.lost(age=EARLY) == 0.5
    assert [seat.lost(age=1.0) for _ in range(5)] == [0.5, 1.0, 2.0, 4.0, None]


@pytest.mark.parametrize(
    ("code", "expected"),
    [(0, True), (-15, True), (-2, True), (1, False), (-9, False), (130, False)],
)
def test_a_signal_may_meet_a_worker_in_its_birth(code, expected):
    """SIGTERM or SIGINT before it can listen is an end like any other; SIGKILL is not."""
    assert is_as_told(code) is expected


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (1, "ended with exit code 1"),
        (-9, "was ended by SIGKILL"),
        (-250, "was ended by signal 250"),
    ],
)
def test_a_death_is_told_in_words(code, words):
    """A worker's death is told by its exit code, or by the name of the signal."""
    assert fate(code) == words
