"""How far a command has come."""

import pytest

from duetime.cli.progress import Progress
from duetime.testing import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


def test_without_a_terminal_a_line_comes_now_and_then(clock, capsys):
    """Each with the rate since the task began."""
    progress = Progress(clock)
    progress.at("copied", 500)
    clock.advance(4_000)
    progress.at("copied", 4_500)
    assert capsys.readouterr().err == ""
    clock.advance(1_000)
    progress.at("copied", 10_500)
    progress.at("copied", 11_000)
    assert capsys.readouterr().err == "copied 10,500 timers, 2,000 a second\n"
    clock.advance(5_000)
    progress.at("compared", 500)
    assert capsys.readouterr().err == "compared 500 timers\n"
    clock.advance(5_000)
    progress.at("compared", 1_000, "lines")
    clock.advance(5_000)
    progress.at("compared", 2_000, "lines")
    assert capsys.readouterr().err == "compared 1,000 lines\ncompared 2,000 lines, 200 a second\n"
    progress.end()
    assert capsys.readouterr().err == ""


def test_on_a_terminal_the_line_replaces_itself(clock, capsys, monkeypatch):
    """What is said stays, on a line of its own."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress = Progress(clock)
    for done in (500, 1_000):
        clock.advance(100)
        progress.at("copied", done)
    progress.say("Something.")
    assert capsys.readouterr().err == (
        "\r\x1b[Kcopied 500 timers\r\x1b[Kcopied 1,000 timers, 5,000 a second\r\x1b[KSomething.\n"
    )
