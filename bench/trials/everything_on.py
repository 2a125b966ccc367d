"""What signing, keeping and checking answers costs: ``python -m bench.trials.everything_on``.

The same burst, with all of it off and with all of it on, in turn: callbacks that are signed, and
answers of which the body and a header are kept; then also with a JSON Schema that answers are held
to; and with more than most would have: three headers, and four signatures on each callback, because
two secrets are active, and there is ``X-Timer-Signature`` as well. The log of attempts is always
written. The receiver does not check signatures, and always answers the same.

On a machine that others use as well, the processor time says more than the rate.
"""

import argparse
import statistics
import sys
from collections import deque
from pathlib import Path
from random import choices
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import uvloop

from bench import tenants
from bench.databases import opening
from bench.progress import Progress
from bench.sizes import Sizes
from bench.stage import Stage
from bench.workloads import burst
from duetime.benching.process import Process
from duetime.benching.servers import sink

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
KEPT: dict[str, object] = {"response_bytes": 1024, "response_headers": ["x-request-id"]}
CHECKED: dict[str, object] = {
    **KEPT,
    "response_schema": {
        "type": "object",
        "required": ["ok", "order"],
        "properties": {
            "ok": {"const": True},
            "order": {"type": "string", "pattern": "^A-[0-9]+$"},
            "state": {"enum": ["accepted", "done"]},
        },
    },
}


class Kind(NamedTuple):
    """A way in which Duetime is set up."""

    settings: dict[str, Any]
    group: dict[str, object]


KINDS = {
    "off": Kind({}, {}),
    "on": Kind({"SIGNING_SECRETS": SECRET}, KEPT),
    "on, and checked": Kind({"SIGNING_SECRETS": SECRET}, CHECKED),
    "on, and more": Kind(
        {"SIGNING_SECRETS": f"{SECRET},whsec_{'QUJD' * 8}"},
        {
            **CHECKED,
            "signatures": ["webhook", "timer"],
            "response_headers": ["content-type", "x-request-id", "server"],
        },
    ),
}


class Round(NamedTuple):
    """One burst."""

    per_second: float
    cpu: float  # microseconds a timer


async def fired(stage: Stage, count: int, kind: Kind) -> Round:
    """The figures of one burst."""

    def prepare(server: Process) -> None:
        tenants.ask(server.port, "/groups/default", kind.group, method="PUT")

    lead = 2_000 + count // 5
    while True:
        done = await burst.fire(stage, count, lead, path="/say", prepare=prepare, **kind.settings)
        if done is not None:
            receipts, used = done
            return Round(receipts.per_second, used.total * 1_000_000 / count)
        lead *= 2


async def run(store: str, data: Path, *, count: int, rounds: int) -> None:
    """Take turns, and print the medians and their ratios."""
    figures: dict[str, list[Round]] = {name: [] for name in KINDS}
    async with opening.opened(store, data) as databases, sink() as sink_:
        stage = Stage(databases, sink_, Progress(), Sizes(burst=count), data)
        for number in range(rounds):
            names = deque(KINDS)
            names.rotate(number)  # each is the first in its turn
            for name in names:
                figures[name].append(await fired(stage, count, KINDS[name]))
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    for unit, field in (("callbacks/s", "per_second"), ("µs of CPU a timer", "cpu")):
        off = [getattr(each, field) for each in figures["off"]]
        for name, rounds_ in figures.items():
            _print(f"{unit}, {name}", off, [getattr(each, field) for each in rounds_])


def _print(what: str, off: list[float], on: list[float]) -> None:
    ratios = [b / a for a, b in zip(off, on, strict=True)]
    draws = sorted(statistics.median(choices(ratios, k=len(ratios))) for _ in range(2_000))
    doubt = f"({draws[100]:.2f}-{draws[1900]:.2f})"
    best = max(on) if "callbacks" in what else min(on)
    print(
        f"{what:40} median {statistics.median(on):8,.0f}  best {best:8,.0f}"
        f"  of off {statistics.median(ratios):.2f} {doubt}"
    )


def main() -> None:
    """Run the trial."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.trials.everything_on", description=__doc__
    )
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--count", type=int, default=10_000, help="timers in a burst")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--data", type=Path, help="a folder for the databases")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        data = options.data or Path(folder)
        uvloop.run(run(options.store, data, count=options.count, rounds=options.rounds))


if __name__ == "__main__":
    main()
