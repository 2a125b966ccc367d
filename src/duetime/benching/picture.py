"""The picture of a report: an SVG that needs nothing else, on light and on dark pages.

Three panels, one below the other: how late timers were, how fast a burst arrived, and how late
timers were at each rate that was tried.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from duetime.benching.histogram import BOUNDS, Bucket
from duetime.benching.limit import LATEST, Step
from duetime.benching.report import BURST_EVERY, Report
from duetime.benching.verdict import because, sentence

NAMESPACE = "http://www.w3.org/2000/svg"
WIDTH = 860
HEAD = 112
PANEL = 250  # from the top of one to the top of the next
LEFT, RIGHT = 76, 28
ABOVE, PLOT = 34, 150  # from the top of a panel to its plot, and how high that is
LONGEST_LINE = 118  # characters that fit below the title

# A page of its own colour, so that it can be read wherever it is shown.
_STYLE = """\
.page{fill:#ffffff}.grid{stroke:#d8dee4;stroke-width:1}.axis{stroke:#59636e;stroke-width:1}
text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#59636e}
.title{font-size:17px;font-weight:600;fill:#1f2328}.panel{font-size:13px;font-weight:600;\
fill:#1f2328}
.bar{fill:#2f6fde}.held{fill:#1a7f37}.failed{fill:none;stroke:#cf222e;stroke-width:2.5}
.line{fill:none;stroke:#8b949e;stroke-width:1.5}.bound{stroke:#cf222e;stroke-width:1.2;\
stroke-dasharray:6 4}
.warn{fill:#cf222e}.good{fill:#1a7f37}
@media (prefers-color-scheme:dark){.page{fill:#0d1117}.grid{stroke:#2b323b}.axis{stroke:#9198a1}
text{fill:#9198a1}.title,.panel{fill:#f0f6fc}.bar{fill:#4493f8}.held,.good{fill:#3fb950}
.failed,.bound{stroke:#f85149}.warn{fill:#f85149}}"""


class Scale(NamedTuple):
    """From values to places, straight or by their logarithm."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Where a value is; what lies beyond the ends is put there."""
        low, high = self.low, self.high
        value = min(max(value, low), high)
        if self.is_log:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.start + share * (self.end - self.start), 1)


def picture(report: Report) -> str:
    """The whole picture, as the text of a file."""
    title = sentence(report.limit)
    about = f"Duetime {report.version}, {report.store}, {_workers(report.workers)}"
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    height = HEAD + 3 * PANEL
    size = f'width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="{NAMESPACE}" {size} viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="page" {size} rx="8"/>',
        _text(24, 32, _headline(report), "title"),
        _text(24, 53, _shortened(because(report.limit))),
        _text(24, 71, _shortened(about)),
        _text(24, 89, _shortened(machine)),
        *_lateness(report, HEAD),
        *_burst(report, HEAD + PANEL),
        *_search(report.steps, HEAD + 2 * PANEL),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _headline(report: Report) -> str:
    if not report.limit.rate:
        return "The lowest rate that was tried was not kept"
    return f"{report.limit.rate:,} timers a second"


def _workers(count: int) -> str:
    return "one worker" if count == 1 else f"{count} workers"


def _lateness(report: Report, top: int) -> Iterable[str]:
    """The histogram: each bucket as wide as its part of the axis."""
    steady = report.steady
    title = f"How late {steady.timers:,} timers were, at {steady.rate:,} a second"
    yield _text(24, top + 14, title, "panel")
    buckets = steady.lateness
    most = max((bucket.count for bucket in buckets), default=1)
    low = min((bucket.since for bucket in buckets), default=0.1) or BOUNDS[0] / 2
    high = max((bucket.until or 2 * bucket.since for bucket in buckets), default=10.0)
    across = Scale(low, high, LEFT, WIDTH - RIGHT, is_log=True)
    up = _upwards(top, 0, most)
    yield from _frame(top, up, "timers")
    for at in _ticks_of_a_log(low, high):
        yield from _tick(across.place(at), top, _milliseconds(at))
    for bucket in buckets:
        yield _bar(
            across.place(bucket.since or low),
            across.place(bucket.until or high),
            up,
            bucket.count,
            _bucket_words(bucket),
        )
    yield _caption(top, "milliseconds after the due instant (logarithmic)")
    words = ", ".join(
        f"{name} {value:,.1f} ms"
        for name, value in (
            ("p50", steady.p50),
            ("p90", steady.p90),
            ("p99", steady.p99),
            ("max", steady.max),
        )
    )
    yield _text(WIDTH - RIGHT, top + 14, words, anchor="end")


def _burst(report: Report, top: int) -> Iterable[str]:
    burst = report.burst
    title = f"How fast {burst.timers:,} timers arrived that were due at one instant"
    yield _text(24, top + 14, title, "panel")
    most = max(burst.arrived, default=1)
    last = max(len(burst.arrived), 1) * BURST_EVERY
    across = Scale(0, last, LEFT, WIDTH - RIGHT)
    up = _upwards(top, 0, most)
    yield from _frame(top, up, f"per {BURST_EVERY} ms")
    for at in _ticks(last):
        yield from _tick(across.place(at), top, f"{at:,g}")
    for number, count in enumerate(burst.arrived):
        since = number * BURST_EVERY
        until = since + BURST_EVERY
        words = f"{count:,} callbacks from {since:,} to {until:,} ms"
        yield _bar(across.place(since), across.place(until), up, count, words)
    yield _caption(top, "milliseconds after the due instant")
    words = f"{burst.per_second:,.0f} callbacks/s, the first after {burst.first_ms:,.1f} ms"
    yield _text(WIDTH - RIGHT, top + 14, words, anchor="end")


def _search(steps: Sequence[Step], top: int) -> Iterable[str]:
    """Rate against lateness: a dot where it held, a cross where it did not."""
    yield _text(24, top + 14, "How late timers were at each rate that was tried", "panel")
    rates = [step.rate for step in steps] or [1]
    late = [max(step.p99, BOUNDS[0]) for step in steps] or [1.0]
    across = Scale(min(rates) / 1.2, max(rates) * 1.2, LEFT, WIDTH - RIGHT, is_log=True)
    low, high = 10 ** math.floor(math.log10(min(late))), max(*late, LATEST) * 1.6
    up = Scale(low, high, top + ABOVE + PLOT, top + ABOVE, is_log=True)
    yield from _frame(top, up, "p99, ms", [each for each in _tens(low, high) if each >= low])
    for at in _ticks_of_a_log(min(rates) / 1.2, max(rates) * 1.2):
        yield from _tick(across.place(at), top, f"{at:,g}")
    height = up.place(LATEST)
    yield f'<line class="bound" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height}" y2="{height}"/>'
    yield _text(LEFT + 8, height - 5, f"{LATEST:g} ms: the most that holds", "warn")
    places = [(across.place(step.rate), up.place(max(step.p99, low)), step) for step in steps]
    counted = {x: y for x, y, _ in places}  # of a rate that was tried twice, the second time
    points = " ".join(f"{x},{counted[x]}" for x in sorted(counted))
    yield f'<polyline class="line" points="{points}"/>'
    for x, y, step in places:
        yield _dot(x, y, step)
    yield _caption(top, "timers a second, created and fired (logarithmic)")
    yield _text(WIDTH - RIGHT - 100, top + 14, "● held", "good", "end")
    yield _text(WIDTH - RIGHT, top + 14, "✕ did not hold", "warn", "end")


def _dot(x: float, y: float, step: Step) -> str:
    words = f"{step.rate:,} a second: {step.why_not or f'p99 {step.p99:,.1f} ms'}"
    tip = f"<title>{escape(words)}</title>"
    if step.holds:
        return f'<circle class="held" cx="{x}" cy="{y}" r="5">{tip}</circle>'
    arms = f"M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"
    return f'<path class="failed" d="{arms}">{tip}</path>'


def _bucket_words(bucket: Bucket) -> str:
    return f"{bucket.count:,} timers: {bucket.label}"


def _upwards(top: int, low: float, high: float) -> Scale:
    return Scale(low, max(high, 1) * 1.08, top + ABOVE + PLOT, top + ABOVE)


def _frame(top: int, up: Scale, unit: str, ticks: Sequence[float] | None = None) -> Iterable[str]:
    """The axes, with lines across at round values."""
    bottom = top + ABOVE + PLOT
    for value in _ticks(up.high) if ticks is None else ticks:
        y = up.place(value)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        yield _text(LEFT - 8, y + 4, f"{value:,g}", anchor="end")
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    yield f'<line class="axis" x1="{LEFT}" x2="{LEFT}" y1="{top + ABOVE}" y2="{bottom}"/>'
    middle = top + ABOVE + PLOT / 2
    yield (
        f'<text x="18" y="{middle:g}" text-anchor="middle" '
        f'transform="rotate(-90 18 {middle:g})">{escape(unit)}</text>'
    )


def _tick(x: float, top: int, words: str) -> Iterable[str]:
    bottom = top + ABOVE + PLOT
    yield f'<line class="axis" x1="{x}" x2="{x}" y1="{bottom}" y2="{bottom + 4}"/>'
    yield _text(x, bottom + 17, words, anchor="middle")


def _caption(top: int, words: str) -> str:
    return _text((LEFT + WIDTH - RIGHT) / 2, top + ABOVE + PLOT + 34, words, anchor="middle")


def _bar(left: float, right: float, up: Scale, count: int, words: str) -> str:
    """A bar that leaves a gap to the next; one of a single timer can be seen as well."""
    bottom, y = up.start, up.place(count)
    height = max(bottom - y, 1.5 if count else 0)
    gap = 1.0 if right - left > 3 else 0.0  # noqa: PLR2004 - narrower, nothing would be left of it
    return (
        f'<rect class="bar" x="{left:.1f}" y="{bottom - height:.1f}" '
        f'width="{max(right - left - gap, 0.5):.1f}" height="{height:.1f}">'
        f"<title>{escape(words)}</title></rect>"
    )


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "") -> str:
    attributes = f' class="{kind}"' if kind else ""
    attributes += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:g}" y="{y:g}"{attributes}>{escape(words)}</text>'


def _ticks(most: float) -> list[float]:
    """A few round values from 0 to this one."""
    rough = most / 4
    ten = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(ten * each for each in (1, 2, 5, 10) if ten * each >= rough)
    if most >= 1:
        step = max(step, 1.0)
    return [step * number for number in range(int(most / step) + 1)]


def _tens(low: float, high: float) -> list[float]:
    """The powers of ten between these."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0**power for power in range(first, last + 1)]


def _ticks_of_a_log(low: float, high: float) -> list[float]:
    """Round values between these: the more, the fewer powers of ten there are."""
    tens = [10.0**power for power in range(math.floor(math.log10(low)), len(str(int(high))) + 1)]
    factors = (1, 2, 5) if high / low < 1e4 else (1,)  # noqa: PLR2004 - as many as fit
    return [ten * each for ten in tens for each in factors if low <= ten * each <= high]


def _milliseconds(value: float) -> str:
    return f"{value:,g}"


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…"
