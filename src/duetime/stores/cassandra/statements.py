"""The CQL of everything that is written to a partition.

A condition is on a column and not on the row, so that the answer of a batch that lost has just
those columns in it, and not what the timers carry.
"""

_PLACE = "shard = ? AND kind = ? AND at = ? AND id = ? AND n = ?"
_TRUTH = "shard = ? AND kind = 0 AND at = 0 AND id = ? AND n = 0"
_KEY = "shard = ? AND kind = 1 AND at = 0 AND id = ? AND n = 0"

# Whoever writes knows the epoch of the partition, and loses if it has changed: see ``fence.py``.
# The epoch is everybody's, but is asked for together with a row: without one, Cassandra looks for
# any that lives, and meets all that is dead.
_FENCE = "shard = ? AND kind = 7 AND at = 0 AND id = '' AND n = 0"
FENCE = f"UPDATE duetime.timers SET epoch = ?, version = 0 WHERE {_FENCE} IF epoch = ?"
GROUND = f"SELECT version, epoch, floor_at, floor_id FROM duetime.timers WHERE {_FENCE}"
RAISE = (
    "UPDATE duetime.timers SET epoch = ?, floor_at = ?, floor_id = ?, version = 0 "
    f"WHERE {_FENCE} IF epoch = ?"
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
SAME = f"UPDATE duetime.timers SET version = ? WHERE {_TRUTH} IF version = ?"
DROP = f"DELETE FROM duetime.timers WHERE {_TRUTH} IF version = ?"
DELETE = f"DELETE FROM duetime.timers WHERE {_PLACE}"
DROP_LOG = "DELETE FROM duetime.timers WHERE shard = ? AND kind = 4 AND at = 0 AND id = ?"
WAKE = f"UPDATE duetime.timers SET version = ?, weight = ?, is_claimed = ? WHERE {_PLACE}"
FINISH = f"UPDATE duetime.timers SET version = ? WHERE {_PLACE}"
BODY = f"UPDATE duetime.timers USING TTL ? SET body = ? WHERE {_PLACE}"
