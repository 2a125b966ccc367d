"""The machine that was measured, in a few words, so that figures can be compared honestly."""

import os
import platform
from pathlib import Path
from typing import NamedTuple


class Disk(NamedTuple):
    """Where the database files lie."""

    device: str
    kind: str


def disk_of(path: Path) -> Disk:
    """The file system that holds a path."""
    best, found = "", Disk("?", "?")
    mounts = Path("/proc/mounts")
    for line in mounts.read_text().splitlines() if mounts.exists() else ():
        device, mount, kind = line.split()[:3]
        if path.absolute().is_relative_to(mount) and len(mount) >= len(best):
            best, found = mount, Disk(device, kind)
    return found


def is_memory(disk: Disk) -> bool:
    """Tell whether it is no disk at all."""
    return disk.kind in {"tmpfs", "ramfs"}


def processors() -> int:
    """How many processors we may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe() -> dict[str, str]:
    """What matters for the figures, whatever the database."""
    return {
        "processor": f"{processors()} x {_processor()}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load before": _load(),
    }


def _load() -> str:
    if not hasattr(os, "getloadavg"):
        return "?"
    return " ".join(f"{load:.1f}" for load in os.getloadavg())


def _processor() -> str:
    about = Path("/proc/cpuinfo")
    for line in about.read_text().splitlines() if about.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
