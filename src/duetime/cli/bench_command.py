"""The command that measures how fast Duetime is here: on this machine, with this store."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from duetime.cli.commands import Commands, add_command
from duetime.cli.settings_flags import add_flags, settings_from
from duetime.config.table import TABLE
from duetime.errors import ConfigurationError

STORE_VARIABLE = "BENCH_STORE"
HIDDEN = "-"  # instead of a URL: it is in the environment
SVG = Path("duetime-bench.svg")
MOST_TIMERS = 1_000_000
MOST_RATE = 100_000
MOST_SECONDS = 3_600

# The settings that one wants to try out; the others are as for `serve`, in the environment or .env.
_FLAGS = {
    "WORKERS",
    "NUM_SHARDS",
    "DATABASE_SCHEMA",
    "DATABASE_POOL_SIZE",
    "SQLITE_SYNCHRONOUS",
    "OUTBOX",
    "AUDIT",
    "MAX_IN_FLIGHT",
    "TARGET_CONCURRENCY",
}


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "bench",
        _bench,
        "Measure how fast Duetime is on this machine, and where its limit is",
        f"""\
examples:
  duetime bench                     on a fresh SQLite file, a few minutes
  duetime bench --quick             a first look, about a minute
  duetime bench --store postgresql://host/database --workers 2
  {STORE_VARIABLE}=postgresql://user:password@host/database duetime bench --store -
  duetime bench --json figures.json --svg figures.svg

It runs a node, a receiver and a load generator of its own, and ends them again. The SQLite file
lies in a folder beside the database that the settings name, so that its disk is measured, and is
removed. A database that --store names is migrated as `serve` does it, must be empty, and is
emptied again: its tables stay. A URL with a password is better passed by {STORE_VARIABLE}, with a
dash in its place: other users of a machine can see the arguments of a command.

The node has the settings that `serve` would have, but for its address and its key, and it does
not connect to NATS. Whatever else runs on this machine is measured along with it.

exit codes:
  0  done, and every promise was kept
  1  a timer was early, lost or doubled; or the benchmark or its database failed
  2  wrong usage, a wrong setting, or --store names a database that is in use
  130  interrupted""",
    )
    parser.add_argument(
        "--store",
        metavar="URL",
        help=f"an empty database to measure on; a dash: {STORE_VARIABLE} says it (default: a "
        "fresh SQLite file)",
    )
    parser.add_argument("--quick", action="store_true", help="measure less: about a minute")
    parser.add_argument(
        "--timers",
        type=_count(MOST_TIMERS),
        metavar="N",
        help="how many are created, and are due in the burst (default: 10000; quick: 2000)",
    )
    parser.add_argument(
        "--rate",
        type=_count(MOST_RATE),
        metavar="N",
        help="timers a second of the steady part, at which the search for the limit begins "
        "(default: 200)",
    )
    parser.add_argument(
        "--seconds",
        type=_count(MOST_SECONDS),
        metavar="N",
        help="how long the steady part takes (default: 10; quick: 5)",
    )
    parser.add_argument(
        "--max-rate",
        type=_count(MOST_RATE),
        metavar="N",
        help=f"the most timers a second that are tried (default: {MOST_RATE})",
    )
    parser.add_argument(
        "--svg", type=Path, default=SVG, metavar="FILE", help="the picture (default: %(default)s)"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="all figures; a dash: to standard output instead"
    )
    add_flags(parser, without=[each.env for each in TABLE if each.env not in _FLAGS])


def _bench(args: argparse.Namespace) -> int:
    settings = settings_from(args)
    if args.store is not None:
        settings = replace(settings, database_url=_url(args.store))
    # Imported here: the commands that only call a node load neither a store nor the benchmark.
    from duetime.benching.measuring import QUICK, Sizes  # noqa: PLC0415
    from duetime.cli.bencher import Wishes, run_bench  # noqa: PLC0415

    usual = QUICK if args.quick else Sizes()
    rate, seconds = args.rate or usual.rate, args.seconds or usual.seconds
    most = args.max_rate or usual.most
    if most < rate:
        raise ConfigurationError(f"--max-rate: must be at least {rate}, which is --rate")
    sizes = usual._replace(
        timers=args.timers or usual.timers,
        rate=rate,
        seconds=seconds,
        step_seconds=min(usual.step_seconds, seconds),
        most=most,
    )
    _check_file("--svg", args.svg)
    if args.json is not None and str(args.json) != HIDDEN:
        _check_file("--json", args.json)
    return run_bench(settings, Wishes(sizes, args.store is not None, args.svg, args.json))


def _url(argument: str) -> str:
    """The URL that --store names, or the variable of the environment if it is a dash."""
    url = os.environ.get(STORE_VARIABLE) if argument == HIDDEN else argument
    if not url:
        raise ConfigurationError(f"--store: name a database, or set {STORE_VARIABLE}")
    return url


def _check_file(flag: str, path: Path) -> None:
    """Refuse a file that cannot be written before minutes have gone by."""
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir():
        raise ConfigurationError(f"{flag}: {path} is no place for a file")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigurationError(f"{flag}: {path} cannot be written")


def _count(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from 1 to {most:,}, not {text!r}"
            )
        return int(text)

    return read
