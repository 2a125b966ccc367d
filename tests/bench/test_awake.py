"""Processors are kept awake for as long as something is measured, where that is allowed."""

from pathlib import Path

from bench.awake import kept_awake


def test_no_delay_is_asked_for(tmp_path: Path):
    """Four zero bytes, as Linux reads them, and no longer than it is needed."""
    wish = tmp_path / "wish"
    wish.touch()
    with kept_awake(wish) as idle:
        assert wish.read_bytes() == bytes(4)
        assert idle == "are kept awake"


def test_who_may_not_ask_is_told(tmp_path: Path):
    """The table says that processors halt, and why."""
    with kept_awake(tmp_path / "none") as idle:
        assert idle == f"halt ({tmp_path / 'none'}: No such file or directory)"
