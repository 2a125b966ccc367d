"""Deadlines of timers that wait."""

from duetime.engine.deadlines import FEW, Deadlines
from tests.factories import NOW, make_spec, make_timer


def late(deadline=1_000, **fields):
    return make_timer(execute_at=NOW, wake_at=NOW, spec=make_spec(deadline=deadline), **fields)


def test_they_pass_in_order_and_once():
    """A timer may start until its deadline, and not later."""
    deadlines = Deadlines(lambda _id, _version: True)
    first, second = late(1_000), late(2_000)
    deadlines.add("b", second)
    deadlines.add("a", first)
    deadlines.add("a", make_timer())
    assert deadlines.next_at() == NOW + 1_001
    assert deadlines.passed(NOW + 1_000) == []
    assert [(name, line.id) for name, line in deadlines.passed(NOW + 1_001)] == [("a", first.id)]
    assert [line.id for _, line in deadlines.passed(NOW + 9_000)] == [second.id]
    assert deadlines.next_at() is None


def test_those_that_wait_no_longer_are_left_out():
    """They were started, or changed."""
    deadlines = Deadlines(lambda _id, _version: False)
    deadlines.add("a", late())
    assert deadlines.passed(NOW + 5_000) == []


def test_memory_is_bounded_by_those_that_wait():
    """However many with a deadline have waited and gone."""
    waiting = set()
    deadlines = Deadlines(lambda id_, _version: id_ in waiting)
    timer = late(86_400_000)
    waiting.add(timer.id)
    deadlines.add("a", timer)
    for _ in range(5 * FEW):
        deadlines.add("a", late(86_400_000))
    assert len(deadlines) <= FEW + 1
    assert [line.id for _, line in deadlines.passed(NOW + 86_400_001)] == [timer.id]
