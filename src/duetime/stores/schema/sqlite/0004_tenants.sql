-- Timers with a retention of their own, which most have not, and the lines of the audit.

-- When it may be dropped, if it has finished and has a retention of its own.
ALTER TABLE timers ADD COLUMN drop_at INTEGER;
CREATE INDEX timers_outlived ON timers (drop_at, shard) WHERE drop_at IS NOT NULL;

-- What may be dropped as usual: those others, however many are kept for years, are not in the way.
DROP INDEX timers_finished;
CREATE INDEX timers_finished ON timers (updated_at, shard)
    WHERE status IN ('completed', 'failed', 'canceled') AND drop_at IS NULL;

-- Lines lie as they are read, a tenant's by time; and are dropped by time, whosever they are.
CREATE TABLE audit_lines (
    tenant TEXT NOT NULL,
    id     TEXT NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_lines_id ON audit_lines (id);
