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
    for line in Path("/proc/mounts").read_text().splitlines():
        device, mount, kind = line.split()[:3]
        if path.absolute().is_relative_to(mount) and len(mount) >= len(best):
            best, found = mount, Disk(device, kind)
    return found


def describe() -> dict[str, str]:
    """What matters for the figures, whatever the database."""
    return {
        "processor": f"{os.cpu_count()} x {_processor()}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
