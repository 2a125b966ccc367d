"""Budgets: how many instructions and calls each work may take for a timer, by version of Python.

They are what was counted last, and stand in a file beside this one. ``make guard`` writes it.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.guard.measuring import ask

FILE = Path(__file__).with_name("budgets.json")
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"

# By how much of its budget a work may grow. This is no room for noise: one version of Duetime,
# counted sixty times, also on a busy machine (``spread``), differs by less than a ten-thousandth.
# It is room for a small thing that is worth it, once: budgets do not grow by themselves.
TOLERANCE = 0.02

# A work that has become so much lighter must have a new budget: what was won could be lost again,
# and nobody would see it.
SLACK = 0.05

# A function with a smaller share of all instructions is not listed.
SMALLEST = 0.005

MOST_TOLD = 10  # functions


class Taken(NamedTuple):
    """What a work takes for a timer."""

    instructions: float
    calls: float
    functions: Mapping[str, float]  # instructions of each, the heaviest first

    @property
    def floor(self) -> float:
        """What a function has at most that is not listed."""
        return self.instructions * SMALLEST


def taken(name: str, **options: Any) -> Taken:
    """Count what a work takes; ``ask`` says how else that can be done."""
    found = ask(name, **options)
    count, functions = found["count"], found["functions"]
    instructions = sum(each for each, _ in functions.values()) / count
    return Taken(
        round(instructions, 1),
        round(sum(calls for _, calls in functions.values()) / count, 1),
        {
            function: round(each / count, 1)
            for function, (each, _) in functions.items()
            if each / count >= instructions * SMALLEST
        },
    )


def read(file: Path = FILE) -> dict[str, dict[str, Taken]]:
    """The budgets of each version of Python, by the names of works."""
    text = json.loads(file.read_text()) if file.exists() else {}
    return {
        python: {name: Taken(**budget) for name, budget in budgets.items()}
        for python, budgets in text.items()
    }


def write(budgets: Mapping[str, Taken], file: Path = FILE, python: str = PYTHON) -> tuple[str, ...]:
    """Write the budgets of a version of Python anew; the answer is which others were dropped.

    Where a work has changed, the budgets of other versions are of what it was before: there, none
    is better than a wrong one, until somebody counts with that version too.
    """
    had = read(file)
    old = had.get(python, {})
    has_changed = any(
        name in old and problem(name, old[name], budget) for name, budget in budgets.items()
    )
    every = {**({} if has_changed else had), python: budgets}
    text: dict[str, Any] = {
        version: {name: budget._asdict() for name, budget in every[version].items()}
        for version in sorted(every, key=lambda version: [int(part) for part in version.split(".")])
    }
    file.write_text(json.dumps(text, indent=1) + "\n")
    return tuple(had.keys() - every.keys())


def problem(name: str, budget: Taken, now: Taken) -> str | None:
    """What is to be said of a work that does not keep to its budget; None if it does."""
    grown = {
        "instructions": now.instructions / budget.instructions - 1,
        "calls": now.calls / budget.calls - 1,
    }
    what = max(grown, key=lambda each: grown[each])
    if grown[what] <= TOLERANCE and grown["instructions"] >= -SLACK:
        return None
    if grown[what] > TOLERANCE:
        verdict = f"{grown[what]:.1%} more {what} than its budget has; {TOLERANCE:.0%} are allowed"
        advice = (
            "If that is what the change is worth: `make guard` writes the budgets anew. "
            "Commit them with the change, and say why."
        )
    else:
        verdict = f"{-grown['instructions']:.1%} fewer instructions than its budget has"
        advice = "Well done: `make guard` writes the budgets anew, so that it stays so."
    said = (
        f"{name} takes {now.instructions:,.1f} instructions and {now.calls:,.1f} calls for a "
        f"timer on Python {PYTHON}, its budget is {budget.instructions:,.1f} and "
        f"{budget.calls:,.1f}: {verdict}."
    )
    return "\n".join([said, differences(budget, now), advice])


def differences(budget: Taken, now: Taken) -> str:
    """Which functions take most more, or fewer, instructions for a timer than they did."""
    rows = []
    for function in {**now.functions, **budget.functions}:
        had, has = budget.functions.get(function), now.functions.get(function)
        # What is not listed is not known exactly: no more is said of it than is certain.
        grown = (has or min(now.floor, had or 0)) - (had or min(budget.floor, has or 0))
        rows.append((grown, had, has, function))
    rows.sort(key=lambda row: (-abs(row[0]), row[3]))
    shown = [f"{'budget':>10}{'now':>10}{'change':>10}  function"]
    shown += [
        f"{_figure(had)}{_figure(has)}{grown:>+10.1f}  {function}"
        for grown, had, has, function in rows[:MOST_TOLD]
        if abs(grown) >= 0.1
    ]
    return "\n".join(shown)


def _figure(instructions: float | None) -> str:
    return f"{'few':>10}" if instructions is None else f"{instructions:>10,.1f}"
