"""Spread: by how much the counts of one version differ, from which the guard's tolerance follows.

``python -m tests.guard.spread --runs 20 --busy 4 --seed random`` counts every work twenty times,
beside four loops that keep the processors busy, with other hashes each time.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.guard import budgets
from tests.guard.works import WORKS


@contextmanager
def _busy(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.guard.spread")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--busy", type=int, default=0, help="loops beside it")
    parser.add_argument("--seed", default="0", help="of hashes; random: another one each time")
    options = parser.parse_args()
    with _busy(options.busy):
        for name in WORKS:
            runs = [budgets.taken(name, seed=options.seed) for _ in range(options.runs)]
            for what in ("instructions", "calls"):
                counts = [getattr(run, what) for run in runs]
                least, most = min(counts), max(counts)
                print(
                    f"{name}: {least:,.1f} to {most:,.1f} {what} a timer, "
                    f"{most / least - 1:.3%} apart in {len(runs)} runs"
                )


if __name__ == "__main__":
    main()
