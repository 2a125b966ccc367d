"""What a host's other guests take, and that whoever measures a machine is told of it."""

import io

import msgspec
import pytest

from duetime.benching import usage
from duetime.benching.host import Host
from duetime.cli.output import Screen
from duetime.cli.show_bench import show_report
from tests.benching.test_picture import REPORT


@pytest.fixture
def stat(tmp_path, monkeypatch):
    """Writes what the system says of its processors, in hundredths of a second."""
    monkeypatch.setattr(usage, "_PROC", tmp_path)
    monkeypatch.setattr(usage, "_TICKS", 100)

    def write(*, user, idle, stolen):
        (tmp_path / "stat").write_text(f"cpu  {user} 0 0 {idle} 0 0 0 {stolen} 0 0\n")

    return write


def test_what_others_had_of_what_was_wanted(stat):
    """Time in which nothing was wanted does not count, and neither does what was before."""
    stat(user=500, idle=100, stolen=700)
    host = Host()
    stat(user=590, idle=9_000, stolen=710)
    assert host.taken == pytest.approx(0.1)


def test_nothing_was_wanted(stat):
    """No share of nothing."""
    stat(user=500, idle=100, stolen=700)
    host = Host()
    stat(user=500, idle=900, stolen=700)
    assert host.taken is None


def test_a_system_that_does_not_tell(stat):
    """As macOS: without /proc."""
    assert Host().taken is None


@pytest.mark.parametrize(
    ("taken", "is_told"), [(None, False), (0.0, False), (0.019, False), (0.02, True), (0.3, True)]
)
def test_who_measures_is_told(taken, is_told):
    """Above the last line, which says how many timers a second it keeps."""
    out = io.StringIO()
    show_report(Screen(out), msgspec.structs.replace(REPORT, taken=taken))
    lines = out.getvalue().splitlines()
    words = f"Other guests of its host had {taken or 0:.0%} of the processor time"
    assert lines[-2].startswith(words) == is_told
    assert lines[-1].startswith("This machine keeps 800 ")
