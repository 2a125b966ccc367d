"""The agenda: what is due now and what is late have their shares, of places and of memory."""

import msgspec
import pytest

from duetime.engine import column
from duetime.engine.agenda import Agenda
from tests.engine.crowds import heavy
from tests.factories import NOW, make_timer


def test_heavy_timers_do_not_keep_light_ones_out(monkeypatch):
    """What fills the agenda by its weight leaves room to what weighs little."""
    monkeypatch.setattr(column, "MOST_BYTES", 1024 * 1024)
    full = Agenda()
    for _ in range(20):
        timer = heavy(100)
        if full.has_room_for(NOW + 4_000, timer.weight, NOW):
            full.put(timer, NOW)
    assert len(full) == 10
    for _ in range(20):
        light = make_timer(execute_at=NOW + 1_000)
        assert full.has_room_for(NOW + 1_000, light.weight, NOW)
        full.put(light, NOW)


def test_what_is_due_now_does_not_queue_behind_a_backlog():
    """Both lanes of the agenda have their share of every batch."""
    agenda = Agenda()
    for number in range(1_000):
        agenda.put(make_timer(execute_at=NOW - 60_000 + number), NOW)
    now_due = [make_timer(execute_at=NOW) for _ in range(10)]
    for timer in now_due:
        agenda.put(timer, NOW)
    batch = agenda.take(NOW, 100)
    assert {timer.id for timer in now_due} <= {timer.id for timer in batch}
    assert len(batch) == 100


@pytest.mark.promise("late-fires")
def test_a_flood_of_timers_due_now_does_not_starve_the_backlog():
    """The backlog keeps its half of every batch."""
    agenda = Agenda()
    backlog = [make_timer(execute_at=NOW - 60_000 + number) for number in range(100)]
    for timer in backlog:
        agenda.put(timer, NOW)
    for _ in range(1_000):
        agenda.put(make_timer(execute_at=NOW), NOW)
    batch = agenda.take(NOW, 100)
    assert [timer.id for timer in batch if timer.execute_at < NOW] == [t.id for t in backlog[:50]]


def test_a_single_place_goes_to_what_is_due_now():
    """A batch of one is no reason for what came up in time to wait for the whole backlog."""
    agenda = Agenda()
    agenda.put(make_timer(execute_at=NOW - 60_000), NOW)
    now_due = make_timer(execute_at=NOW)
    agenda.put(now_due, NOW)
    assert [timer.id for timer in agenda.take(NOW, 1)] == [now_due.id]


def test_the_first_of_both_lanes_is_next():
    """What is late already keeps nobody asleep until something comes up in time."""
    agenda = Agenda()
    assert agenda.next_at() is None
    agenda.put(make_timer(execute_at=NOW + 3_000), NOW)
    assert agenda.next_at() == NOW + 3_000
    agenda.put(make_timer(execute_at=NOW - 60_000), NOW)
    assert agenda.next_at() == NOW - 60_000
    assert agenda.next_in_time() == NOW + 3_000


def test_only_news_are_put_on_the_agenda():
    """A version that is known already, or an older one, or a timer that sleeps, changes nothing."""
    agenda = Agenda()
    timer = make_timer(execute_at=NOW, version=2)
    assert agenda.put(timer, NOW)
    assert not agenda.put(timer, NOW)
    assert not agenda.put(msgspec.structs.replace(timer, version=1), NOW)
    assert not agenda.put(make_timer(wake_at=None), NOW)
    assert agenda.take(NOW, 10) == [timer]
    assert len(agenda) == 0


def test_what_is_struck_off_leaves_the_others_in_order(monkeypatch):
    """The rest come up as before, and the bytes of those that went are free again."""
    agenda_ = Agenda()
    kept, unwanted = [], []
    for number in range(40):
        timer = make_timer(execute_at=NOW + number * 7 % 40)
        agenda_.put(timer, NOW)
        (unwanted if timer.execute_at % 3 else kept).append(timer)
    ids = {timer.id for timer in unwanted}
    updated = msgspec.structs.replace(kept.pop(), version=2, wake_at=NOW + 41)
    agenda_.put(updated, NOW)
    dropped = agenda_.drop(lambda timer: timer.id in ids)
    assert {timer.id for timer in dropped} == ids
    monkeypatch.setattr(column, "MOST_BYTES", (len(kept) + 1) * updated.weight + 9_000)
    assert agenda_.has_room_for(NOW, 9_000, NOW)
    assert not agenda_.has_room_for(NOW, 9_001, NOW)
    kept.sort(key=lambda timer: timer.execute_at)
    assert agenda_.take(NOW + 60, 100) == [*kept, updated]
