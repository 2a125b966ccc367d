"""libeatmydata, which lets a program go on without waiting for the disk."""

from pathlib import Path

from tests.servers import debian
from tests.servers.unavailable import Unavailable

PACKAGE = "libeatmydata1"


def library(root: Path) -> Path:
    """Where it is among the packages that were unpacked into a folder."""
    found = sorted(root.glob("usr/lib/*/libeatmydata.so"))
    if not found:
        raise Unavailable("Debian's package of libeatmydata has no library")
    return found[0]


def fetched() -> Path:
    """That of this system's own release."""
    return library(debian.unpacked([PACKAGE], library))
