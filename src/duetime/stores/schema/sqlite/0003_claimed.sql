-- The due index tells which timers are claimed: who inherits a dead node's shards looks for these.

DROP INDEX timers_due;
CREATE INDEX timers_due ON timers (wake_at, id, shard, version, weight, status)
    WHERE wake_at IS NOT NULL;
