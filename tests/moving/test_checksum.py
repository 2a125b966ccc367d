"""The checksum of a store."""

import itertools

import pytest
from msgspec import Raw
from msgspec.structs import replace

from duetime.moving.checksum import Tally
from duetime.stores import Record
from duetime.timer import HttpCallback
from tests.factories import make_attempt, make_event, make_line, make_spec, make_timer

TIMER = make_timer(spec=make_spec(metadata=Raw(b'{"a": 1}')))
LOG = (make_attempt(TIMER, attempt=1), make_attempt(TIMER, attempt=2))
EVENT = make_event(TIMER)
LINE = make_line(details={"b": 1, "a": 2})
RECORD = Record(kind="layout", name="x", data=b"\x00\xff")


def tally(*added):
    made = Tally()
    for name, *values in added:
        getattr(made, f"add_{name}")(*values)
    return made


def test_the_order_does_not_matter():
    """Whatever order a store has, the checksum is the same."""
    things = [
        ("timer", TIMER, LOG),
        ("timer", make_timer(), ()),
        ("event", EVENT),
        ("record", RECORD),
        ("line", LINE),
    ]
    assert len({tally(*order).checksum for order in itertools.permutations(things)}) == 1


def test_it_counts():
    """How much of each there is."""
    counted = tally(("timer", TIMER, LOG), ("event", EVENT), ("record", RECORD), ("line", LINE))
    assert (counted.timers, counted.attempts, counted.events, counted.records) == (1, 2, 1, 1)
    assert counted.lines == 1
    assert len(counted.checksum) == 32


OTHERS = {
    "a version": ("timer", replace(TIMER, version=2), LOG),
    "an attempt less": ("timer", TIMER, LOG[:1]),
    "another attempt": ("timer", TIMER, (LOG[0], replace(LOG[1], node="x"))),
    "a space in the user's JSON": (
        "timer",
        replace(TIMER, spec=replace(TIMER.spec, metadata=Raw(b'{"a":1}'))),
        LOG,
    ),
    "progress": (
        "timer",
        replace(TIMER, progress=replace(TIMER.progress, claimed_by="n")),
        LOG,
    ),
}


@pytest.mark.promise("whole-copy")
@pytest.mark.parametrize("name", OTHERS)
def test_any_difference_changes_it(name):
    """Whatever differs between two stores, however little, their checksums differ."""
    assert tally(("timer", TIMER, LOG)).total != tally(OTHERS[name]).total


def test_it_is_what_it_was():
    """Somebody may have written down the checksum of what has moved before."""
    assert Tally().checksum == "0" * 32
    assert tally(("record", RECORD)).checksum == "8ac2d149cd433891ddbd092c3ca9fd82"


@pytest.mark.parametrize("other", [{"actor": "x"}, {"details": {"a": 2}}, {"group": "g"}])
def test_a_difference_in_a_line_changes_it(other):
    """Whoever, whatever and wherever."""
    assert tally(("line", LINE)).total != tally(("line", replace(LINE, **other))).total


def test_the_order_of_details_does_not_matter():
    """As with any mapping: not every engine keeps it."""
    same = replace(LINE, details={"a": 2, "b": 1})
    assert tally(("line", LINE)).total == tally(("line", same)).total


def test_the_order_of_headers_does_not_matter():
    """Not every engine keeps the order of a mapping, and it means nothing."""
    one, two = (
        make_timer(
            id=TIMER.id,
            timer_id="same",
            spec=make_spec(
                correlation_id="c", callback=HttpCallback(url="https://a.example", headers=headers)
            ),
        )
        for headers in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    )
    assert tally(("timer", one, ())).total == tally(("timer", two, ())).total
