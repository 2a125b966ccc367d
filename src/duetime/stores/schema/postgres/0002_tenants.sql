-- oldest: 1
-- Timers with a retention of their own, which most have not, and the lines of the audit. Older
-- programs drop such timers as they drop all others.

-- When it may be dropped, if it has finished and has a retention of its own. It may be a leftover
-- of an older program where the timer has not finished: the status tells.
ALTER TABLE states ADD COLUMN drop_at BIGINT;

-- What may be dropped: those with a time of their own by that, and behind them all others, so that
-- neither is in the way of the other. And what was completed, for lists.
DROP INDEX states_finished;
CREATE INDEX states_finished ON states (drop_at, updated_at)
    WHERE status IN ('completed', 'failed', 'canceled');

CREATE TABLE audit_lines (
    id     UUID NOT NULL PRIMARY KEY,  -- which begins with the time, by which they are dropped
    tenant TEXT NOT NULL COLLATE "C",
    body   TEXT NOT NULL
) WITH (vacuum_truncate = false);
CREATE INDEX audit_lines_tenant ON audit_lines (tenant, id);
