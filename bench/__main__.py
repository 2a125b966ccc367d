"""The command: runs the workloads one after the other, and ends with one table."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import uvloop

from bench.figure import Figure, typical
from bench.machine import describe, disk_of
from bench.progress import Progress
from bench.servers import sink
from bench.stage import QUICK, BrokenPromise, Sizes, Stage
from bench.table import table
from bench.workloads import WORKLOADS

RESULTS = Path(__file__).resolve().parent / "results"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure Duetime beside the ceilings of this machine."
    )
    parser.add_argument("--only", help=f"some of {','.join(WORKLOADS)}, comma-separated")
    parser.add_argument("--quick", action="store_true", help="small counts: about a minute")
    parser.add_argument("--runs", type=int, help="how often each runs; the median counts")
    parser.add_argument("--json", type=Path, help="where the figures go (bench/results/...)")
    parser.add_argument("--data", type=Path, help="a folder on the disk to measure")
    options = parser.parse_args()
    options.names = options.only.split(",") if options.only else list(WORKLOADS)
    if unknown := set(options.names) - set(WORKLOADS):
        parser.error(f"--only: no workload is called {', '.join(sorted(unknown))}")
    return options


async def _measure(options: argparse.Namespace, data: Path, progress: Progress) -> list[Figure]:
    figures: list[Figure] = []
    async with sink() as receiver:
        stage = Stage(data, receiver, progress, QUICK if options.quick else Sizes())
        for name in options.names:
            workload, usual_runs = WORKLOADS[name]
            runs = options.runs or (1 if options.quick else usual_runs)
            figures += typical([await workload(stage) for _ in range(runs)])
    return figures


def main() -> int:
    """Run what was asked for; the answer is the exit code."""
    options = _options()
    RESULTS.mkdir(exist_ok=True)
    started = time.time()
    progress = Progress()
    with tempfile.TemporaryDirectory(prefix="data-", dir=options.data or RESULTS) as folder:
        data = Path(folder)
        if disk_of(data).kind in {"tmpfs", "ramfs"}:
            print(f"{data} is no disk: name a folder on one with --data", file=sys.stderr)
            return 2
        machine = describe(data)
        try:
            figures = uvloop.run(_measure(options, data, progress))
        except KeyboardInterrupt:
            progress.end()
            return 130
        except BrokenPromise as broken:
            progress.end()
            print(f"A promise was broken: {broken}", file=sys.stderr)
            return 1
    progress.end()
    path = options.json or RESULTS / time.strftime("%Y%m%d-%H%M%S.json", time.gmtime(started))
    content = {"machine": machine, "quick": options.quick, "figures": figures}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content)))
    for name, value in machine.items():
        print(f"{name}: {value}")
    print(f"\n{table(figures)}\n")
    print(f"{time.time() - started:.0f} s; nothing early, lost or duplicated; written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
