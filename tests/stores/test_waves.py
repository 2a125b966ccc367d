"""Waves: batches split such that nothing meets itself."""

from duetime.stores import Insert
from duetime.stores.waves import insert_waves
from tests.factories import make_timer


def test_no_id_and_no_key_occurs_twice_in_a_wave():
    """The first of those with a name in common comes first, and so on down the line."""
    timers = [
        make_timer(timer_id="a"),
        make_timer(timer_id="b"),
        make_timer(timer_id="a"),
        make_timer(timer_id="c"),
        make_timer(timer_id="a"),
    ]
    timers.append(make_timer(timer_id="d", id=timers[2].id))  # waits for one that waits
    waves = insert_waves(enumerate(map(Insert, timers)))
    assert [[place for place, _ in wave] for wave in waves] == [[0, 1, 3], [2], [4, 5]]


def test_nothing_makes_no_wave():
    """Not even an empty one."""
    assert list(insert_waves([])) == []
