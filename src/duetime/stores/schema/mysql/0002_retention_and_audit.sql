-- oldest: 1
-- A retention of a timer's own, and the lines of the audit. It only adds, so that it is done at once
-- however many timers there are: none of them has a retention yet.

-- Finished timers that are kept for a time of their own; their states have no finished_at. There are
-- no partial indexes: as a table beside, it costs nothing to whoever has no retention of his own.
CREATE TABLE IF NOT EXISTS retentions (
    id      BINARY(16) NOT NULL PRIMARY KEY,
    drop_at BIGINT     NOT NULL,
    shard   SMALLINT   NOT NULL,
    -- Of the timer as it finished: if it is another one by now, this row says nothing.
    version INT        NOT NULL,
    KEY retentions_drop (drop_at, shard)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- By id, which is by time: new lines go to the end, and old ones are dropped from the start.
CREATE TABLE IF NOT EXISTS audit_lines (
    id     BINARY(16)      NOT NULL PRIMARY KEY,
    tenant VARBINARY(1020) NOT NULL,
    body   LONGBLOB        NOT NULL,
    KEY audit_lines_tenant (tenant, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
