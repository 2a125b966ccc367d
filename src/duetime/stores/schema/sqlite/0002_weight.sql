-- How heavy a timer is to read, and a due index that holds all that the engine asks it for, so that
-- no timer is read before it is known to be needed. The default is for older nodes, who set none.

ALTER TABLE timers ADD COLUMN weight INTEGER NOT NULL DEFAULT 2048;
UPDATE timers SET weight = 2048 + length(CAST(spec AS BLOB));

DROP INDEX timers_due;
CREATE INDEX timers_due ON timers (wake_at, id, shard, version, weight) WHERE wake_at IS NOT NULL;
