"""Debian's packages, unpacked into the checkout's cache without installing them.

Nothing of the system is changed and root is not needed. A server comes with the libraries that the
system lacks, except LLVM: it is big, and PostgreSQL loads it only for JIT compilation. One of
another suite, such as unstable, comes with all its libraries, down to the C library.
"""

import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.servers.unavailable import Unavailable

CACHE = Path(__file__).parents[2] / ".cache" / "servers"
_TOOLS = ("apt-get", "apt-cache", "dpkg-deb", "dpkg-query")
_LIBRARY = re.compile(r"^ [ |](?:Pre)?Depends: (z?lib\S+)$", re.MULTILINE)
_SIGNED_BY = re.compile(r"signed-by\s*[:=]\s*(/[^\s\]]+)", re.IGNORECASE)
_LEFT_OUT = re.compile(r"libllvm")
# Java's libraries are found beside those that need them, never in the system.
_NEVER_THE_SYSTEMS = re.compile(r"lib.*-java$")


def unpacked(
    packages: Sequence[str], check: Callable[[Path], object], suite: str | None = None
) -> Path:
    """The folder in which the packages lie, fetched unless they are there and pass the check.

    They are those of this system's own release, or of another ``suite`` of the same archive.
    """
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        raise Unavailable(
            f"{packages[0]} comes from Debian's packages, and this machine has no {missing[0]}"
        )
    folder = CACHE / f"{suite or _release()}-{platform.machine()}" / packages[0]
    with locked(folder):
        if _passes(folder, check):
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="unpacking-") as unfinished:
            root = Path(unfinished) / "root"
            _fetch(packages, Path(unfinished), root, suite)
            check(root)
            root.rename(folder)
    return folder


def _release() -> str:
    release = platform.freedesktop_os_release()
    return f"{release['ID']}-{release.get('VERSION_ID', 'rolling')}"


def _passes(folder: Path, check: Callable[[Path], object]) -> bool:
    if not folder.exists():
        return False
    try:
        check(folder)
    except Unavailable:
        return False  # A library of the system that it used is gone: fetch that one too.
    return True


def _fetch(packages: Sequence[str], folder: Path, root: Path, suite: str | None) -> None:
    archive = Archive(folder) if suite is None else OtherSuite(folder, suite)
    if not archive.has(packages):
        archive.renew_lists()
    if not archive.has(packages):
        raise Unavailable(f"{archive.title} has no {' or no '.join(packages)}")
    say(f"fetching {', '.join(packages)} from Debian")
    try:
        files = archive.download(archive.with_libraries(packages))
    except Unavailable:
        archive.renew_lists()  # They named a version that has been replaced meanwhile.
        files = archive.download(archive.with_libraries(packages))
    for file in files:
        run("dpkg-deb", "-x", file, root)
    root.chmod(0o755)  # dpkg-deb leaves it to the packages; servers run as another user.
    _keep_links_inside(root)


def _keep_links_inside(root: Path) -> None:
    """Let links to what was unpacked lead there, and not to the system's file of that name."""
    for link in root.rglob("*"):
        if link.is_symlink() and link.readlink().is_absolute():
            target = root / link.readlink().relative_to("/")
            if target.exists():
                link.unlink()
                link.symlink_to(os.path.relpath(target, link.parent))


class Archive:
    """The package archive that this system's apt knows."""

    title = "this system's package archive"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Root may not need to drop to apt's own user, who may not write into our folder.
        self._options = ["-o", "APT::Sandbox::User=root"]

    def has(self, packages: Sequence[str]) -> bool:
        """Whether all of them can be downloaded."""
        shown = run("apt-cache", *self._options, "policy", *packages)
        return shown.count("Candidate: ") - shown.count("Candidate: (none)") == len(packages)

    def renew_lists(self) -> None:
        """Get the newest lists of packages, for ourselves: the system's stay as they are."""
        say(f"fetching the lists of {self.title}")
        self._leave_the_systems_alone()
        run("apt-get", *self._options, "update")

    def _leave_the_systems_alone(self) -> None:
        lists, cache = self._folder / "lists", self._folder / "cache"
        for made in (lists, cache):
            (made / "partial").mkdir(parents=True, exist_ok=True)
        self._set({"Dir::State::Lists": lists, "Dir::Cache": cache})
        # Some systems keep no digest of the lists, and would read them all for each question.
        self._set({"Dir::Cache::pkgcache": "some.bin", "Dir::Cache::srcpkgcache": "all.bin"})

    def _set(self, settings: Mapping[str, str | Path]) -> None:
        for name, value in settings.items():
            self._options += ["-o", f"{name}={value}"]

    def with_libraries(self, packages: Sequence[str]) -> list[str]:
        """The packages, and the libraries that they need and this system lacks."""
        installed = self._installed()
        wanted = list(packages)
        asking = wanted
        while asking:  # for all at once: apt may read its whole lists for each question
            needed = _LIBRARY.findall(run("apt-cache", *self._options, "depends", *asking))
            asking = [
                name
                for name in dict.fromkeys(needed)
                if (name not in installed or _NEVER_THE_SYSTEMS.match(name))
                and name not in wanted
                and not _LEFT_OUT.match(name)
            ]
            wanted = [*wanted, *asking]
        return wanted

    def download(self, packages: Sequence[str]) -> list[Path]:
        """Download them, verified by apt."""
        into = self._folder / "packages"
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir()
        run("apt-get", *self._options, "download", *packages, cwd=into)
        return sorted(into.glob("*.deb"))

    def source_of_debian(self) -> str | None:
        """A line for apt's sources without the suite: where Debian's own main archive is."""
        found = run(
            *("apt-get", *self._options, "indextargets"),
            *("--format", "$(REPO_URI) $(SOURCESENTRY)"),
            *("Created-By: Packages", "Origin: Debian", "Label: Debian", "Component: main"),
        ).split()
        if not found:
            return None
        uri, entry = found[:2]
        signed = _SIGNED_BY.search(Path(entry.rpartition(":")[0]).read_text())
        return f"deb [signed-by={signed[1]}] {uri}" if signed else f"deb {uri}"

    def _installed(self) -> set[str]:
        """What need not be fetched."""
        shown = run("dpkg-query", "-W", "-f", _STATUS)
        return set(re.findall(r"^(\S+) ii", shown, flags=re.MULTILINE))


class OtherSuite(Archive):
    """Another suite of Debian's archive, if that is what this system's apt knows."""

    def __init__(self, folder: Path, suite: str) -> None:
        super().__init__(folder)
        self.title = f"Debian's suite {suite}"
        source = Archive(folder).source_of_debian() or self._source_by_new_lists()
        if source is None:
            raise Unavailable(
                f"{self.title} is out of reach: this system's packages do not come from Debian"
            )
        sources, nothing = folder / "suite.list", folder / "nothing"
        sources.write_text(f"{source} {suite} main\n")
        nothing.touch()
        self._leave_the_systems_alone()
        self._set(
            {
                "Dir::Etc::SourceList": sources,
                "Dir::Etc::SourceParts": "/dev/null",
                "Dir::Etc::Preferences": nothing,
                "Dir::Etc::PreferencesParts": "/dev/null",
                "Dir::State::Status": nothing,
                "APT::Default-Release": "",
                "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
                "Acquire::Languages": "none",
            }
        )

    def _source_by_new_lists(self) -> str | None:
        """Where there are no lists yet, nobody knows whose archive it is."""
        archive = Archive(self._folder)
        archive.renew_lists()
        return archive.source_of_debian()

    def _installed(self) -> set[str]:
        return set()  # the system's are of another release


_STATUS = r"${Package} ${db:Status-Abbrev}\n"


def run(
    *command: str | Path, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Run a program to its end, and return what it printed; Unavailable says why it failed."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=500,
        )
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip()
        raise Unavailable(f"{command[0]} failed: {said}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{command[0]} took more than 500 s") from error
    return done.stdout


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One fetches into a folder, the others wait for what it fetched."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def say(what: str) -> None:
    """Tell who waits what takes so long."""
    print(f"servers: {what} ...", file=sys.stderr, flush=True)
