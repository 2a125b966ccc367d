"""The life of a timer: samples are counted for the innermost part that they are in."""

from bench.trials.life import PARTS, REST, Life, shares, table

LOOP = "main (duetime/cli/__init__.py);run (asyncio/runners.py)"


def test_a_sample_counts_for_the_innermost_part():
    """A write under a claim is a write; what no part knows is the event loop's; threads are not."""
    raw = "\n".join(
        [
            f"{LOOP};step (duetime/engine/dispatcher.py);apply (duetime/stores/base.py) 3",
            f"{LOOP};step (duetime/engine/dispatcher.py) 5",
            f"{LOOP};app (/v/site-packages/starlette/routing.py);new (duetime/drafts.py) 7",
            f"{LOOP};now (duetime/clock.py) 11",
            "_run (duetime/stores/sqlite/writer.py) 13",
        ]
    )
    assert shares(raw) == {
        "write: ledger and driver": 3,
        "claim: from the agenda to the row": 5,
        "decode, check, draft": 7,
        REST: 11,
    }


def test_the_table_has_a_column_for_each_load():
    """What took next to nothing is left empty; the database has a line where it is known."""
    parts = dict.fromkeys((*PARTS, REST), 0.0)
    lives = {
        "create": Life({**parts, "answer": 3.6}, 20.0, None),
        "fire": Life({**parts, REST: 7.0}, 1.0, None),
    }
    lines = table(lives).splitlines()
    assert lines[0] == "| µs a timer | create | fire |"
    assert "| answer | 4 |  |" in lines
    assert "| other threads (SQLite's) | 20 | 1 |" in lines
    assert lines[-1] == "| all | 24 | 8 |"
    assert not any("database" in line for line in lines)
