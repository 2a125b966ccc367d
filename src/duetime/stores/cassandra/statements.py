"""The CQL of everything that is written to a partition.

A condition is on a column and not on the row, so that the answer of a batch that lost has just
those columns in it, and not what the timers carry.
"""

_PLACE = "shard = ? AND kind = ? AND at = ? AND id = ? AND n = ?"
_TRUTH = "shard = ? AND kind = 0 AND at = 0 AND id = ? AND n = 0"
_KEY = "shard = ? AND kind = 1 AND at = 0 AND id = ? AND n = 0"

# Whoever writes knows the epoch of the partition, and loses if it has changed: see ``fence.py``.
FENCE = "UPDATE duetime.timers SET epoch = ? WHERE shard = ? IF epoch = ?"
RAISE = (
    "UPDATE duetime.timers SET epoch = ?, floor_at = ?, floor_id = ? WHERE shard = ? IF epoch = ?"
)

NEW_TRUTH = (
    "UPDATE duetime.timers USING TTL ? SET version = ?, state = ?, spec = ?, heavy = ? "
    f"WHERE {_TRUTH} IF version = null"
)
NEW_KEY = f"UPDATE duetime.timers USING TTL ? SET timer = ? WHERE {_KEY} IF timer = null"
SAME_KEY = f"UPDATE duetime.timers USING TTL ? SET timer = ? WHERE {_KEY}"
MOVE = f"UPDATE duetime.timers SET version = ?, state = ? WHERE {_TRUTH} IF version = ?"
REWRITE = (
    "UPDATE duetime.timers USING TTL ? SET version = ?, state = ?, spec = ?, heavy = ? "
    f"WHERE {_TRUTH} IF version = ?"
)
DROP = f"DELETE FROM duetime.timers WHERE {_TRUTH} IF version = ?"
DELETE = f"DELETE FROM duetime.timers WHERE {_PLACE}"
WAKE = f"UPDATE duetime.timers SET version = ?, weight = ?, is_claimed = ? WHERE {_PLACE}"
FINISH = f"UPDATE duetime.timers SET version = ? WHERE {_PLACE}"
BODY = f"UPDATE duetime.timers USING TTL ? SET body = ? WHERE {_PLACE}"

OF_A_BATCH = (
    FENCE,
    NEW_TRUTH,
    NEW_KEY,
    SAME_KEY,
    MOVE,
    REWRITE,
    DROP,
    DELETE,
    WAKE,
    FINISH,
    BODY,
)
