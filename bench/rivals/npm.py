"""Npm: installs the rivals in the versions of package-lock.json, once."""

import asyncio
import re
import shutil
from pathlib import Path

import msgspec

FOLDER = Path(__file__).resolve().parent
OLDEST = (20, 18)  # what the HTTP client of the rivals' jobs needs
COMPLAINT = 300  # characters of what npm says when it fails; it goes on for pages
_INSTALLED = "installed.json"  # a copy of the lock that was installed, among what was


class NoNode(Exception):
    """The rivals cannot be run here; the message says what is missing."""


def node() -> str:
    """The program that runs the scripts."""
    return _program("node")


async def install(folder: Path = FOLDER) -> None:
    """Install what the lock says, unless that is there already."""
    lock = (folder / "package-lock.json").read_text()
    installed = folder / "node_modules" / _INSTALLED
    _check_version(await _run(folder, node(), "--version"))
    if installed.exists() and installed.read_text() == lock:
        return
    # Not `npm ci`, which refuses a lock without the optional packages of other systems; and scripts
    # of packages are not run, for none of these needs any.
    quietly = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    await _run(folder, _program("npm"), "install", "--no-save", *quietly)
    installed.write_text(lock)


def versions(folder: Path = FOLDER) -> dict[str, str]:
    """The version of each package that is asked for."""
    content = msgspec.json.decode((folder / "package.json").read_bytes())
    asked: dict[str, str] = content["dependencies"]
    return asked


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NoNode(f"{name} is not installed (the rivals need Node.js and npm)")
    return found


def _check_version(told: str) -> None:
    numbers = tuple(map(int, re.findall(r"\d+", told)[:2]))
    if numbers < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise NoNode(f"Node.js {told.strip()} is too old (the rivals need {needed} or newer)")


async def _run(folder: Path, *command: str) -> str:
    """What a program prints; what it complains of, if it fails."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    told, complaint = await process.communicate()
    if process.returncode:
        name = Path(command[0]).name
        shown = " ".join(complaint.decode().split())[:COMPLAINT]
        raise NoNode(f"{name} failed with {process.returncode}: {shown}")
    return told.decode()
