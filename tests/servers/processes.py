"""The processes of this machine, as the kernel shows them."""

import os
import signal
import time
from pathlib import Path

_ENDED = "X"
_STILL = {"T", "t", "Z", _ENDED}  # stopped, or traced; ended, and nobody has asked how


def descendants(pid: int) -> dict[int, str]:
    """The processes below one, parents first, with their names."""
    children: dict[int, dict[int, str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it has ended meanwhile
        children.setdefault(int(rest.split()[1]), {})[int(stat.parent.name)] = name
    found: dict[int, str] = {}
    left = [pid]
    for parent in left:  # grows while it is read
        found |= children.get(parent, {})
        left += children.get(parent, {})
    return found


def freeze(pid: int, within: float = 30.0) -> None:
    """Stop a process in its tracks, as a machine that hangs would, and return once it stands.

    The signal takes effect when the kernel next runs the thread that it chose for it. Until then,
    on a busy machine, the other threads go on and answer.
    """
    os.kill(pid, signal.SIGSTOP)
    give_up_at = time.monotonic() + within
    while not is_frozen(pid):
        assert time.monotonic() < give_up_at, f"process {pid} goes on after a SIGSTOP"
        time.sleep(0.001)


def is_frozen(pid: int) -> bool:
    """Tell whether none of its threads can run, or it has ended."""
    return all(_state(thread) in _STILL for thread in Path(f"/proc/{pid}/task").glob("*/stat"))


def _state(stat: Path) -> str:
    try:
        return stat.read_text().rpartition(")")[2].split()[0]
    except OSError:
        return _ENDED  # meanwhile
