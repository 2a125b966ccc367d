"""The million: quarters are compared, and growth is judged only once something was dropped."""

from bench.databases import Extent
from bench.workloads.fired import Round, compared, peak
from duetime.benching.receipts import Receipts


def rounds(tables, *, lateness=(1, 1, 1, 1), dead=None):
    return [
        Round(
            per_second=1000,
            probe=Receipts(lateness_ms=[float(late)] * 10),
            extent=Extent(table_mb=table, dead_rows=None if dead is None else dead[place]),
            ended_at=10.0 * (place + 1),
        )
        for place, (table, late) in enumerate(zip(tables, lateness, strict=True))
    ]


def found(figures, what):
    return next(figure for figure in figures if what in figure.what)


def test_the_last_quarter_takes_as_much_room_as_the_second():
    """It may take a little more; the first began with nothing."""
    assert found(compared(rounds([1, 10, 10, 11]), 15), "tables").is_met is True
    assert found(compared(rounds([10, 10, 10, 13]), 15), "tables").is_met is False


def test_a_run_that_ended_before_room_was_used_again_says_nothing_of_it():
    """It can only have grown."""
    figure = found(compared(rounds([1, 2, 3, 4]), 25), "tables")
    assert (figure.is_met, figure.ratio) == (None, 2)


def test_lateness_stands_beside_the_first_quarter():
    """In which the database was as good as empty."""
    figure = found(compared(rounds([1, 1, 1, 1], lateness=(2, 50, 50, 13)), 15), "lateness")
    assert (figure.ceiling, figure.measured, figure.is_met) == (2, 13, False)


def test_dead_rows_are_shown_where_the_engine_counts_them():
    """With all samples, in order."""
    figures = compared(rounds([1, 1, 1, 1], dead=[0, 5, 9, 4]), 15)
    assert found(figures, "dead rows").samples == [0, 5, 9, 4]
    assert not [each for each in compared(rounds([1, 1, 1, 1]), 15) if "dead" in each.what]


def test_a_peak_is_the_most_of_each():
    """Tables are largest when dead rows have just been swept up."""
    seen = [Extent(5.0, 2.0, 900), Extent(7.0, 3.0, 10), Extent(6.0, 1.0, 0)]
    assert peak(seen) == Extent(7.0, 3.0, 900)
    assert peak([Extent(5.0), Extent(4.0)]) == Extent(5.0)
