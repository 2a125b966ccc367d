"""Many pending: turns are compared by their medians, beside all of them and beside chance."""

from bench.meter import Used
from bench.workloads.pending import _chance, _compared, beside
from bench.workloads.steady import Streamed
from duetime.benching.receipts import Receipts


def turns(*p99s, cpu=1.0):
    """Turns of a hundred callbacks each, of which the last is the p99."""
    return [
        Streamed(Receipts(lateness_ms=[1.0] * 98 + [p99] * 2), Used(cpu, None, True))
        for p99 in p99s
    ]


def calmed(streams, *p99s):
    """The same, beside a watch that left out what standstills touched."""
    return [
        each._replace(calm=calm.receipts) for each, calm in zip(streams, turns(*p99s), strict=True)
    ]


def test_what_a_standstill_touched_does_not_count():
    """The aim is for the others; with all of them it is told too, and how many those were."""
    least = calmed(turns(5.0, 5.0, 90.0), 2.0, 2.0, 2.0)
    most = calmed(turns(5.0, 80.0, 90.0), 2.1, 2.1, 2.1)
    for each in (*least, *most):
        each.receipts.count, each.calm.count = 100, 97
    with_all, touched, late, together, _ = _compared(10_000_000, most, least)
    assert (with_all.measured, with_all.ceiling, with_all.is_met) == (80.0, 5.0, None)
    assert round(touched.measured, 6) == 3.0
    assert (late.measured, late.ceiling, late.is_met) == (2.1, 2.0, True)
    assert (together.measured, together.ceiling) == (2.1, 2.0)
    *_, late, _ = beside(10_000_000, most, least)
    assert (late.measured, late.ceiling, late.is_met) == (2.1, 2.0, True)


def test_one_bad_moment_spoils_one_turn():
    """The median has the aim; all turns together are told, and one moment decides them."""
    least = turns(5.0, 5.0, 5.0)
    middle, together, _ = _compared(10_000_000, turns(5.2, 5.3, 900.0), least)
    assert (middle.measured, middle.ceiling, middle.is_met) == (5.3, 5.0, True)
    assert together.is_met is None
    assert middle.samples == [5.2, 5.3, 900.0]


def test_more_than_a_tenth_more_is_missed():
    """Of the lateness and of the CPU."""
    least = turns(5.0, 5.0, 5.0)
    late, _, cpu = _compared(10_000_000, turns(5.6, 5.6, 5.6, cpu=1.2), least)
    assert (late.is_met, cpu.is_met) == (False, False)


def test_the_fewest_stand_beside_nothing():
    """They are what the others are compared with."""
    least = turns(5.0, 6.0, 7.0)
    assert [figure.ratio for figure in _compared(10_000, least, least)] == [None] * 3


def test_chance_is_the_fewest_beside_themselves():
    """Every other turn beside the turns between; from a few turns nothing can be told."""
    late, cpu = _chance(10_000, turns(4.0, 6.0, cpu=1.0) + turns(4.0, 6.0, cpu=3.0))
    assert (late.measured, late.ceiling, late.is_met) == (4.0, 6.0, None)
    assert (cpu.measured, cpu.ceiling, cpu.is_met) == (2.0, 2.0, None)
    assert _chance(10_000, turns(4.0, 6.0, 4.0)) == []


def test_the_processor_time_of_every_turn_is_kept():
    """One turn says little: processors that are shared differ by a fifth from turn to turn."""
    streams = turns(5.0, cpu=2.0) + turns(5.0, cpu=2.4) + turns(5.0, cpu=1.9)
    *_, cpu = _compared(10_000_000, streams, turns(5.0))
    assert (cpu.measured, cpu.samples) == (2.0, [2.0, 2.4, 1.9])


def test_side_by_side_a_bad_moment_is_in_both():
    """So each turn is compared with itself, and the median of the ratios counts."""
    least, most = turns(5.0, 800.0, 5.0), turns(5.2, 808.0, 50.0)
    *_, late, cpu = beside(10_000_000, most, least)
    assert (late.measured, late.ceiling, late.is_met) == (5.2, 5.0, True)
    assert late.samples == [5.2 / 5, 808 / 800, 50 / 5]
    assert (cpu.ratio, cpu.is_met) == (1.0, True)
