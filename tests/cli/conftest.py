"""What the tests of the command line share."""

import functools
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from duetime import cli
from duetime.cli import main
from tests.fake_service import KEY, FakeService
from tests.outputs import OUTPUTS, HeardProcess

PROGRAM = [sys.executable, "-c", "import sys; from duetime.cli import main; sys.exit(main())"]


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService() as running:
        yield running


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    """An empty directory, and an environment that says nothing."""
    monkeypatch.chdir(tmp_path)
    ours = ("API_KEY", "DUETIME_URL", "DUETIME_TENANT", "DATABASE_URL", "COPY_FROM", "COPY_TO")
    for name in (*ours, "SECRETS_KEY", "WEBHOOK_SECRETS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="session", autouse=True)
def one_parser() -> Iterator[None]:
    """The parser is the same for every command, and takes longer to build than most to run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "build_parser", functools.cache(cli.build_parser))
        yield


@pytest.fixture
def run(capsys) -> Callable[..., Ended]:
    """Run the command line in this process."""

    def run_main(*argv: str) -> Ended:
        try:
            code = main(argv)
        except SystemExit as ended:
            code = ended.code
        out, err = capsys.readouterr()
        return Ended(int(code or 0), out, err)

    return run_main


@pytest.fixture
def call(run, service) -> Callable[..., Ended]:
    """Run a command against the fake service."""

    def run_call(*argv: str) -> Ended:
        return run(*argv, "--server", service.url, "--api-key", KEY)

    return run_call


@pytest.fixture
def timer(run, service) -> Callable[..., Ended]:
    """Run `duetime timer ...` against the fake service."""

    def run_timer(verb: str, *argv: str) -> Ended:
        return run("timer", verb, *argv, "--server", service.url, "--api-key", KEY)

    return run_timer


@pytest.fixture
def spawn() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Run the command line as a process of its own."""
    started: list[subprocess.Popen[str]] = []

    def start(*argv: str, **env: str) -> "subprocess.Popen[str]":
        settings = {**os.environ, **env}
        OUTPUTS.keep_settings(settings)
        process = HeardProcess(
            [*PROGRAM, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=settings
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


class Typing(io.StringIO):
    """A terminal at which somebody types."""

    def isatty(self):
        return True


@pytest.fixture
def at_a_terminal(monkeypatch):
    """Somebody sits there, and types this."""

    def sit_down(typed):
        monkeypatch.setattr(sys, "stdin", Typing(typed))
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    return sit_down
