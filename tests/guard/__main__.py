"""Counts what each work takes, tells what has changed, and writes the budgets: ``make guard``.

With ``--show`` nothing is written. Works can be named; without names, it is all of them.
"""

import argparse
import sys

from tests.guard import budgets
from tests.guard.growth import Growth
from tests.guard.measuring import GROWTH, ask
from tests.guard.works import WORKS

HEAVIEST = 15  # functions that are shown


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.guard", description=__doc__)
    parser.add_argument("--show", action="store_true", help="write nothing")
    parser.add_argument("works", nargs="*", metavar="WORK", help=", ".join(WORKS))
    options = parser.parse_args()
    if unknown := set(options.works) - WORKS.keys():
        parser.error(f"there is no work {', '.join(sorted(unknown))}")
    had = budgets.read().get(budgets.PYTHON, {})
    found = {name: budgets.taken(name) for name in options.works or WORKS}
    for name, now in found.items():
        _show(name, now, had.get(name))
    grown = Growth(**ask(GROWTH))
    print(f"growth: {grown.bytes_each:.1f} bytes and {grown.blocks_each:.3f} blocks a fired timer")
    if not options.show:
        kept = {name: had[name] for name in WORKS if name in had}
        merged = kept | found
        dropped = budgets.write({name: merged[name] for name in WORKS if name in merged})
        print(f"{budgets.FILE} has the budgets for Python {budgets.PYTHON}")
        for python in sorted(dropped):
            print(f"those for Python {python} were of the work before, and are gone: count there")
    return 0


def _show(name: str, now: budgets.Taken, budget: budgets.Taken | None) -> None:
    print(f"{name}: {now.instructions:,.1f} instructions, {now.calls:,.1f} calls a timer", end="")
    if budget is None:
        print("; there was no budget")
    else:
        grown = now.instructions / budget.instructions - 1
        print(f"; the budget was {budget.instructions:,.1f}, {budget.calls:,.1f} ({grown:+.1%})")
        if grown:
            print(budgets.differences(budget, now))
    print("  the heaviest:")
    for function, each in list(now.functions.items())[:HEAVIEST]:
        print(f"{each:>10,.1f}  {function}")
    print()


if __name__ == "__main__":
    sys.exit(main())
