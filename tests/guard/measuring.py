"""Measuring is done in a process of its own, in which nothing else has happened before.

``python -m tests.guard.measuring fire-http`` prints what a work takes, as JSON.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GROWTH = "growth"
PATIENCE = 120  # seconds, on the busiest machine

# What changes how Python works is not for us: a seed of hashes, a mode for development.
_KEPT = {"PYTHONPATH"}


def ask(what: str, *, waste: int = 0, seed: str = "0") -> Any:
    """Measure something in a new process, with a seed for its hashes."""
    surroundings = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON") or name in _KEPT
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.guard.measuring", what, str(waste)],
        cwd=ROOT,
        env=surroundings | {"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{what} could not be measured:\n{done.stderr}")
    return json.loads(done.stdout)


def _main(what: str, rounds: str = "0") -> None:
    import uvloop  # noqa: PLC0415 - whoever only asks need not have it

    from tests.guard import waste  # noqa: PLC0415 - it loads most of Duetime
    from tests.guard.growth import growth  # noqa: PLC0415
    from tests.guard.works import tallied  # noqa: PLC0415

    if int(rounds):
        waste.spread(int(rounds))
    if what == GROWTH:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found: Any = runner.run(growth())._asdict()
    else:
        found = tallied(what, uvloop.new_event_loop)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    _main(*sys.argv[1:])
