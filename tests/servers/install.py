"""An install is a folder with the programs of a server, wherever they came from."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers import debian
from tests.servers.unavailable import Unavailable


@dataclass(frozen=True)
class Install:
    """Programs that find all else relative to themselves, so that the folder may be moved."""

    root: Path
    programs: Path  # relative to the root
    borrowed: Path | None = None  # where libraries lie that the system lacks
    # Programs of a newer system bring its C library along, which only its own loader can load.
    is_newer: bool = False

    def program(self, name: str) -> Path:
        """Where a program is."""
        return self.root / self.programs / name

    def command(self, name: str) -> list[str | Path]:
        """What runs a program, before its arguments."""
        if not self.is_newer:
            return [self.program(name)]
        loaders = sorted(self.root.glob("usr/lib/*-linux-gnu*/ld-linux*.so.*"))
        if not loaders:
            raise Unavailable(f"the C library that came with {name} has no loader")
        alone = ("--inhibit-cache", "--library-path", self._libraries)
        return [loaders[0], *alone, self.program(name)]

    @property
    def environment(self) -> dict[str, str]:
        """What its programs need around them; nothing of ours leaks in."""
        plain = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"}
        # The system's own programs would not bear newer libraries.
        return plain if self.is_newer else {**plain, "LD_LIBRARY_PATH": self._libraries}

    @property
    def _libraries(self) -> str:
        roots = [self.root, *([self.borrowed] if self.borrowed else [])]
        return ":".join(
            str(folder)
            for root in roots
            for pattern in ("usr/lib/*-linux-gnu*", "lib/*-linux-gnu*")
            for folder in root.glob(pattern)
        )

    def run(self, program: str, *arguments: str, **popen: Any) -> str:
        """Run a program to its end, and return what it printed."""
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [*self.command(program), *arguments],
            env=self.environment,
            cwd="/",
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
            **popen,
        )
        return done.stdout

    def has_library(self, program: str, library: str) -> bool:
        """Whether a program was built with a library."""
        return library.encode() in self.program(program).read_bytes()

    def check(self, program: str) -> None:
        """Raise unless the program runs here: it may be for another machine."""
        try:
            self.run(program, "--version")
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", "") or error
            raise Unavailable(f"{program} does not run on this machine: {said}".strip()) from error


def from_debian(*packages: str, programs: str, program: str, suite: str | None = None) -> Install:
    """What Debian's packages have in the folder ``programs``, if the ``program`` in it runs."""

    def install(root: Path) -> Install:
        return Install(root, Path(programs), is_newer=suite is not None)

    return install(debian.unpacked(packages, lambda root: install(root).check(program), suite))
