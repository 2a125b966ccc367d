"""What `duetime bench` prints when it is done: a table, a histogram and a sentence."""

from duetime.benching.histogram import Bucket
from duetime.benching.limit import LATEST
from duetime.benching.report import Report
from duetime.benching.verdict import sentence
from duetime.cli.cells import show_lines
from duetime.cli.output import Screen

WIDEST_BAR = 40
NOTABLE = 0.02  # of the processors' time: a host that takes so much is seen in the p99


def show_report(screen: Screen, report: Report) -> None:
    """All of it, for people."""
    steady, burst = report.steady, report.burst
    show_lines(screen, {**report.machine, "store": report.store, "workers": report.workers})
    screen.line()
    rows = [
        ("creates, one by one on 64 connections", f"{report.creates.per_second:,.0f}/s"),
        ("creates, 1,000 in a request", f"{report.batches.per_second:,.0f}/s"),
        (f"burst, {burst.timers:,} due at one instant", f"{burst.per_second:,.0f} callbacks/s"),
        ("burst, the first after", _ms(burst.first_ms)),
        ("burst, the last after", _ms(burst.last_ms)),
        (f"lateness at {steady.rate:,} a second, p50", _ms(steady.p50)),
        (f"lateness at {steady.rate:,} a second, p90", _ms(steady.p90)),
        (f"lateness at {steady.rate:,} a second, p99", _ms(steady.p99)),
        (f"lateness at {steady.rate:,} a second, max", _ms(steady.max)),
        ("CPU of the node, a timer created and fired", _cpu(steady.cpu_ms)),
        (f"most timers a second with p99 below {LATEST:g} ms", f"{report.limit.rate:,}/s"),
    ]
    screen.table(("WHAT", "MEASURED"), rows)
    screen.line()
    _show_histogram(screen, steady.lateness)
    screen.line()
    again = f"; {report.repeats:,} were attempted again" if report.repeats else ""
    screen.line(f"{report.timers:,} timers were fired: none early, lost or doubled{again}.")
    if report.taken is not None and report.taken >= NOTABLE:
        screen.line(
            f"Other guests of its host had {report.taken:.0%} of the processor time that was "
            'wanted: some timers were late for that ("Late now and then" in '
            "docs/troubleshooting.md)."
        )
    screen.line(sentence(report.limit))


def _show_histogram(screen: Screen, buckets: list[Bucket]) -> None:
    most = max((bucket.count for bucket in buckets), default=1)
    rows = [
        (bucket.label, f"{bucket.count:,}", "#" * _width(bucket.count, most)) for bucket in buckets
    ]
    screen.table(("LATENESS", "TIMERS", ""), rows)


def _width(count: int, most: int) -> int:
    """A bar's, in which one timer can be seen, too."""
    return max(round(WIDEST_BAR * count / most), 1) if count else 0


def _ms(value: float) -> str:
    return f"{value:,.1f} ms"


def _cpu(value: float | None) -> str:
    return "not known on this system" if value is None else f"{value:.2f} ms"
