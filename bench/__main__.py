"""The command: runs the workloads one after the other, and ends with one table."""

import argparse
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench.awake import kept_awake
from bench.backlog import spread_over
from bench.databases import opening
from bench.figure import Figure, on_shards, typical
from bench.progress import Progress
from bench.rivals.rival import RivalFailed
from bench.sizes import QUICK, Sizes
from bench.stage import Stage
from bench.table import table
from bench.workloads import NEED_SHARING, ON_REQUEST, WORKLOADS
from duetime.benching.failures import BrokenPromise
from duetime.benching.host import Host
from duetime.benching.machine import describe, disk_of, is_memory
from duetime.benching.servers import sink
from duetime.errors import ConfigurationError, StoreUnavailable

RESULTS = Path(__file__).resolve().parent / "results"

EXAMPLES = """\
examples:
  python -m bench                                    everything, on SQLite
  python -m bench --quick --store postgres           a first look at PostgreSQL
  python -m bench --store postgres --only w1,w2 --runs 5
  python -m bench --store cassandra --only w4 --shards 1,16,256
  python -m bench --store postgresql://user:password@host:5432/database
  python -m bench --store postgres --only w10        beside graphile-worker and BullMQ

An engine by name is a server of its own, which waits for the disk, with its data on the one that is
measured. A server that you name by its URL gets schemas, databases, keyspaces or tables that are
called bench_... and dropped again; what it uses of the processors cannot be seen from here.

w10 installs rivals from npm and needs Node.js 20.18 or newer: it is measured only if it is named.
"""


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 1,16,256")
    return tuple(map(int, parts))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Duetime beside the ceilings of this machine.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--store",
        default="sqlite",
        help=f"{', '.join(opening.NAMES)} (sqlite unless told), or the URL of a server",
    )
    parser.add_argument(
        "--shards",
        type=_numbers,
        help="over how many shards timers are spread (NUM_SHARDS); 1,16,256 measures each",
    )
    parser.add_argument(
        "--pending",
        type=_numbers,
        help="w4: how many timers are far from due, such as 10000,10000000; w11: the most of them",
    )
    parser.add_argument("--turns", type=int, help="w4: how many turns each of these takes")
    parser.add_argument("--only", help=f"some of {','.join(WORKLOADS)}, comma-separated")
    parser.add_argument("--quick", action="store_true", help="small counts: about a minute")
    parser.add_argument("--runs", type=int, help="how often each runs; the median counts")
    parser.add_argument("--json", type=Path, help="where the figures go (bench/results/...)")
    parser.add_argument("--data", type=Path, help="a folder on the disk to measure")
    parser.add_argument(
        "--halting",
        action="store_true",
        help="let idle processors halt, as usual; they are kept awake otherwise, where root may",
    )
    options = parser.parse_args()
    try:
        opening.check(options.store)
    except (opening.UnknownStore, ConfigurationError) as error:
        parser.error(f"--store: {error}")
    can_be_run = [
        name for name in WORKLOADS if options.store != "sqlite" or name not in NEED_SHARING
    ]
    usual = [name for name in can_be_run if name not in ON_REQUEST]
    options.names = options.only.split(",") if options.only else usual
    if unknown := set(options.names) - set(WORKLOADS):
        parser.error(f"--only: no workload is called {', '.join(sorted(unknown))}")
    if alone := set(options.names) - set(can_be_run):
        parser.error(f"--only: {', '.join(sorted(alone))} needs a store that nodes can share")
    return options


async def _measure(
    options: argparse.Namespace, data: Path, progress: Progress
) -> tuple[dict[str, str], list[Figure]]:
    figures: list[Figure] = []
    machine = describe()
    host = Host()
    async with opening.opened(options.store, data) as databases, sink() as receiver:
        machine |= await databases.describe()
        sizes = _sizes(options, QUICK if options.quick else databases.sizes)
        stage = Stage(databases, receiver, progress, sizes, data)
        for shards in options.shards or [databases.num_shards]:
            spread_over(shards)
            measured: list[Figure] = []
            for name in options.names:
                workload, usual_runs = WORKLOADS[name]
                runs = options.runs or (1 if options.quick else usual_runs)
                measured += typical([await workload(stage) for _ in range(runs)])
            figures += [on_shards(shards, f) for f in measured] if options.shards else measured
    machine["stolen"] = (
        f"{host.taken or 0:.0%} of the processor time that was wanted, by the host's others"
    )
    return machine, figures


def _sizes(options: argparse.Namespace, usual: Sizes) -> Sizes:
    """How much to do, as far as that was said."""
    told: dict[str, Any] = {}
    if options.pending:
        told["pending"] = options.pending
        told["start_pending"] = max(options.pending)
    if options.turns:
        told["turns"] = options.turns
    return msgspec.structs.replace(usual, **told)


def main() -> int:
    """Run what was asked for; the answer is the exit code."""
    options = _options()
    RESULTS.mkdir(exist_ok=True)
    started = time.time()
    progress = Progress()
    with tempfile.TemporaryDirectory(prefix="data-", dir=options.data or RESULTS) as folder:
        data = Path(folder)
        is_ours = not opening.is_named_server(options.store)
        if is_ours and is_memory(disk_of(data)):
            print(f"{data} is no disk: name a folder on one with --data", file=sys.stderr)
            return 2
        try:
            with nullcontext("halt") if options.halting else kept_awake() as idle:
                machine, figures = uvloop.run(_measure(options, data, progress))
        except KeyboardInterrupt:
            progress.end()
            return 130
        except (opening.NoServer, RivalFailed, StoreUnavailable) as error:
            progress.end()
            print(error, file=sys.stderr)
            return 2
        except BrokenPromise as broken:
            progress.end()
            print(f"A promise was broken: {broken}", file=sys.stderr)
            return 1
    progress.end()
    path = options.json or RESULTS / time.strftime("%Y%m%d-%H%M%S.json", time.gmtime(started))
    machine["idle processors"] = idle
    content = {"machine": machine, "quick": options.quick, "figures": figures}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content)))
    for name, value in machine.items():
        print(f"{name}: {value}")
    print(f"\n{table(figures)}\n")
    print(f"{time.time() - started:.0f} s; nothing early, lost or duplicated; written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
