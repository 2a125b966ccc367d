"""Growth: what fired timers leave behind in memory."""

import pytest

from tests.guard.growth import Growth
from tests.guard.measuring import GROWTH, ask

pytest.importorskip("uvloop", reason="what is measured runs on its event loop")

# A single object that every timer left behind would be a block, and some 50 bytes. What is found
# all the same, 0.02 blocks and 50 bytes, comes with a round and not with a timer, and is bounded: a
# cache of times that were shown, and the driver of SQLite sweeps out old cursors 200 at a time.
MOST_BLOCKS = 0.2
MOST_BYTES = 200


def test_timers_that_were_fired_leave_nothing_behind():
    """After thousands of them, a node holds no more than before."""
    grown = Growth(**ask(GROWTH))
    if grown.blocks_each >= MOST_BLOCKS or grown.bytes_each >= MOST_BYTES:
        pytest.fail(
            f"each fired timer leaves {grown.blocks_each:.2f} blocks and {grown.bytes_each:.0f} "
            "bytes behind. Most of what was held in the end was allocated here:\n"
            + "\n".join(grown.lines),
            pytrace=False,
        )
