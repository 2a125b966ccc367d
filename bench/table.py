"""The table that the benchmark ends with: measured beside ceiling, aim and rival."""

from bench.figure import Figure

HEADINGS = ("", "workload", "measured", "ceiling", "ratio", "aim", "rival's best")
_MARKS = {True: "ok", False: "MISSED", None: ""}


def table(figures: list[Figure]) -> str:
    """All figures as a Markdown table, wide enough to be read as it is."""
    rows = [HEADINGS, *map(_row, figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _row(figure: Figure) -> tuple[str, ...]:
    ceiling = "" if figure.ceiling is None else f"{number(figure.ceiling)} ({figure.ceiling_is})"
    return (
        _MARKS[figure.is_met],
        f"{figure.workload} {figure.what}",
        f"{number(figure.measured)} {figure.unit}",
        ceiling,
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        "" if figure.aim is None else str(figure.aim),
        figure.rival,
    )


def number(value: float) -> str:
    """A number with as many digits as mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
