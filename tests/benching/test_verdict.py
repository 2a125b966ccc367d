"""What the limit was, in words."""

import pytest

from duetime.benching import usage
from duetime.benching.gauge import Busy, Gauge
from duetime.benching.limit import Found, Step
from duetime.benching.verdict import judge, sentence


def step(rate, busy=None):
    return Step(rate=rate, seconds=2, took=2.0, p50=2.0, p99=9.0, busy=busy)


def verdict(*, workers=1, held=1000, **busy):
    known = {"seconds": 2.0, "node": 0.5, "tools": 0.2, "machine": 0.5, **busy}
    found = Found(
        held=step(held) if held else None, failed=step(1100, Busy(**known) if busy else None)
    )
    return judge(found, workers=workers, processors=4, waits_for="its disk")


@pytest.mark.parametrize(
    ("busy", "cause", "words"),
    [
        ({"node": 0.86}, "node", "the node: its process had used 86% of a core."),
        ({"node": 0.99, "machine": 0.97}, "node", "and the machine was full as well"),
        ({"node": 1.8, "workers": 2}, "node", "its 2 workers had used 1.8 cores"),
        ({"node": 1.2, "workers": 2}, "store", "it waited for its disk"),
        ({"machine": 0.95}, "machine", "the machine: 4 processors were 95% busy"),
        ({"throttled": 0.4}, "machine", "this container may use no more of it"),
        ({"tools": 0.9}, "benchmark", "the benchmark itself"),
        ({"node": 0.4}, "store", "the node had used 40% of a core"),
        ({}, "unknown", "this system does not tell who uses its CPU"),
    ],
)
def test_the_limit_is_what_was_used_up(busy, cause, words):
    """The node's core, the machine, the benchmark itself; or else the store was waited for."""
    found = verdict(**busy)
    assert (found.cause, found.rate) == (cause, 1000)
    assert sentence(found).startswith("This machine keeps 1,000 timers a second, limited by ")
    assert words in sentence(found)


def test_a_search_that_was_ended_found_no_limit():
    """It says that there may be more."""
    found = judge(Found(held=step(1000)), workers=1, processors=4, waits_for="its disk")
    assert found.cause == "none"
    assert sentence(found) == (
        "This machine keeps at least 1,000 timers a second, and no higher rate was tried."
    )


def test_a_machine_that_keeps_nothing():
    """It is not called zero timers a second."""
    words = sentence(verdict(held=0, node=0.99))
    assert words.startswith("This machine did not keep the lowest rate that was tried, limited by")


def test_where_the_system_tells_nothing_nothing_is_known(monkeypatch, tmp_path):
    """As on macOS, which has no /proc."""
    monkeypatch.setattr(usage, "_PROC", tmp_path)
    assert Gauge(1, [1]).read() is None


def test_the_machine_has_been_busy_for_some_of_its_time():
    """And what was throttled is no less than nothing."""
    if not usage.is_known():
        pytest.skip("this system has no /proc")
    busy, total = usage.machine_seconds()
    assert 0 < busy < total
    assert usage.throttled_seconds() >= 0
