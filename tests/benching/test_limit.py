"""The search for the limit, on nodes that are made up."""

import pytest

from duetime.benching.limit import Step, find_limit


def step(rate, **what):
    return Step(**{"rate": rate, "seconds": 2, "took": 2.0, "p50": 2.0, "p99": 9.0, **what})


def node(limit, *, hiccups=()):
    """A node that keeps so many timers a second; the rates at which it stumbles once."""
    asked, left = [], list(hiccups)

    async def measure(rate):
        asked.append(rate)
        if rate in left:
            left.remove(rate)
            return step(rate, p99=500.0)
        return step(rate, p99=9.0 if rate <= limit else 900.0)

    return asked, measure


async def test_the_rate_is_doubled_and_then_the_gap_is_halved():
    """Until the gap is a tenth of what holds; what does not hold is tried twice."""
    asked, measure = node(1000)
    found = await find_limit(measure, 200, 100_000, 0.1)
    assert asked == [200, 400, 800, 1600, 1600, 1200, 1200, 1000, 1100, 1100]
    assert (found.held.rate, found.failed.rate) == (1000, 1100)
    assert [each.rate for each in found.steps] == asked


async def test_one_bad_moment_is_no_limit():
    """A rate that holds the second time holds."""
    asked, measure = node(1000, hiccups=[200, 400])
    found = await find_limit(measure, 200, 800, 0.1)
    assert asked == [200, 200, 400, 400, 800]
    assert (found.held.rate, found.failed) == (800, None)


@pytest.mark.parametrize(("limit", "held"), [(30, 29), (0, None)])
async def test_a_first_rate_that_is_too_much_is_halved(limit, held):
    """Down to one timer a second; a node that does not keep that keeps none."""
    asked, measure = node(limit)
    found = await find_limit(measure, 200, 100_000, 0.1)
    assert (found.held and found.held.rate) == held
    assert asked[:6] == [200, 200, 100, 100, 50, 50]
    if held is None:
        assert found.failed.rate == asked[-1] == 1


@pytest.mark.parametrize("most", [200, 350])
async def test_no_higher_rate_is_tried_than_the_highest_that_may_be(most):
    """And if that holds, there is nothing that failed."""
    asked, measure = node(10_000)
    found = await find_limit(measure, 200, most, 0.1)
    assert asked[-1] == max(asked) == most
    assert (found.held.rate, found.failed) == (most, None)


def test_what_does_not_hold_says_why():
    """Refused creates, creates that are slower than asked for, or timers that are late."""
    assert step(100).why_not == ""
    assert step(100, took=2.3).holds
    assert step(100, refused=3).why_not == "3 creates were refused"
    assert step(100, took=4.0).why_not == "creates did not keep up: 50 a second"
    assert step(100, p99=100.0).holds
    assert step(100, p99=101.0).why_not == "lateness p99 was 101 ms"
