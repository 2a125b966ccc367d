"""Installs: what cannot be had has a reason, and what the server's user cannot reach is copied."""

import os
import shutil
from pathlib import Path

import pytest

from tests.servers.account import server_account
from tests.servers.debian import OtherSuite
from tests.servers.install import Install
from tests.servers.kept import make_folder, within_reach
from tests.servers.postgres import postgres_15
from tests.servers.unavailable import Unavailable


def test_what_does_not_run_here_is_unavailable(tmp_path: Path):
    """Programs for another machine are a reason to skip, in words."""
    with pytest.raises(Unavailable, match=r"postgres does not run on this machine: .*No such file"):
        Install(tmp_path, Path("bin")).check("postgres")


def test_without_apt_there_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """It says what is missing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"comes from Debian's packages, .* has no apt-get"):
        postgres_15()


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="a machine without apt")
def test_without_debians_archive_there_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Where the system's packages come from elsewhere, no suite of Debian is looked for."""
    settings = tmp_path / "apt.conf"
    settings.write_text('Dir::Etc::SourceList "/dev/null"; Dir::Etc::SourceParts "/dev/null";')
    monkeypatch.setenv("APT_CONFIG", str(settings))
    with pytest.raises(Unavailable, match=r"suite sid is out of reach: .* not come from Debian"):
        OtherSuite(tmp_path, "sid")


def test_a_newer_program_is_run_by_its_own_loader(tmp_path: Path):
    """Its libraries are named to the loader only, so that no program of the system meets them."""
    with pytest.raises(Unavailable, match="has no loader"):
        Install(tmp_path, Path("bin"), is_newer=True).check("program")
    loader = tmp_path / "usr/lib/some-linux-gnu/ld-linux-some.so.2"
    loader.parent.mkdir(parents=True)
    loader.write_text('#!/bin/sh\necho "$3 runs $4 with $5 and [$LD_LIBRARY_PATH]"\n')
    loader.chmod(0o755)
    said = Install(tmp_path, Path("bin"), is_newer=True).run("program", "--version")
    assert said == f"{loader.parent} runs {tmp_path}/bin/program with --version and []\n"


def test_an_install_out_of_reach_is_copied(tmp_path: Path):
    """A checkout in root's home is no obstacle to a server that runs as another user."""
    program = tmp_path / "bin" / "program"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 1.0\n")
    program.chmod(0o755)
    tmp_path.chmod(0o700)
    account = server_account()
    folder = make_folder("reach", account)
    try:
        reached = within_reach(Install(tmp_path, Path("bin")), "program", account, folder)
        assert reached.run("program", **account.popen) == "1.0\n"
        assert (reached.root == tmp_path) == (os.geteuid() != 0)
    finally:
        shutil.rmtree(folder)
