"""Usage: what processes have taken of the machine so far, as ``/proc`` tells it."""

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_THROTTLED = Path("/sys/fs/cgroup/cpu.stat")

# Of /proc/PID/stat, counted from behind the name.
_PARENT = 1
_OWN = (11, 12)
_OF_THE_DEAD = (13, 14)  # children that have ended and were waited for

# Of the first line of /proc/stat, counted from behind its name.
_RESTING = (3, 4)  # idle, and waiting for a disk
_STOLEN = 7
_ALL = 8  # what follows is counted among the others already


def is_known() -> bool:
    """Tell whether this system says what processes use."""
    return (_PROC / "stat").exists()


def machine_seconds() -> tuple[float, float]:
    """How long all processors together were busy so far, and how long there was of them.

    What another guest of the same host has taken counts as busy: it was not to be had.
    """
    ticks = _machine_ticks()
    total = sum(ticks)
    return (total - sum(ticks[place] for place in _RESTING)) / _TICKS, total / _TICKS


def stolen_seconds() -> float:
    """How long the processors were wanted here so far, and given to another guest of the host."""
    return _machine_ticks()[_STOLEN] / _TICKS


def throttled_seconds() -> float:
    """How long processes here were held back so far, because their container may have no more."""
    try:
        lines = _THROTTLED.read_text().splitlines()
    except OSError:
        return 0.0
    found = (line.split()[1] for line in lines if line.startswith("throttled_usec "))
    return int(next(found, "0")) / 1e6


def cpu_seconds(pid: int) -> float:
    """The processor time of a process, all its threads together."""
    fields = _fields(pid)
    return sum(int(fields[place]) for place in _OWN) / _TICKS


def thread_cpu_seconds(pid: int, thread: int) -> float:
    """The processor time of one thread of a process; the first has the number of the process."""
    text = (_PROC / str(pid) / "task" / str(thread) / "stat").read_text()
    fields = text.rpartition(")")[2].split()
    return sum(int(fields[place]) for place in _OWN) / _TICKS


def tree_cpu_seconds(root: int) -> float:
    """The processor time of a process and all below it, those that have ended included."""
    ticks: dict[int, int] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for pid in _pids():
        with suppress(OSError):  # it has ended meanwhile
            fields = _fields(pid)
            children[int(fields[_PARENT])].append(pid)
            ticks[pid] = sum(int(fields[place]) for place in (*_OWN, *_OF_THE_DEAD))
    below = [root]
    for pid in below:  # grows while it is read
        below += children[pid]
    return sum(ticks.get(pid, 0) for pid in below) / _TICKS


def memory_mb(pid: int) -> float:
    """What a process holds of the machine's memory."""
    return _status_mb(pid, "VmRSS:")


def peak_mb(pid: int) -> float:
    """The most that it ever held."""
    return _status_mb(pid, "VmHWM:")


def _machine_ticks() -> list[int]:
    first = (_PROC / "stat").read_text().split("\n", 1)[0]
    return [int(each) for each in first.split()[1 : 1 + _ALL]]


def _status_mb(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    return 0.0


def _fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _pids() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
