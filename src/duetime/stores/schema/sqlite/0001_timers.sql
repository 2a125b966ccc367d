-- Timers, their execution log, the outbox and the small documents. Times are milliseconds.

CREATE TABLE timers (
    id             TEXT    NOT NULL UNIQUE,
    shard          INTEGER NOT NULL,
    tenant         TEXT    NOT NULL,
    "group"        TEXT    NOT NULL,
    timer_id       TEXT    NOT NULL,
    version        INTEGER NOT NULL,
    status         TEXT    NOT NULL,
    execute_at     INTEGER NOT NULL,
    wake_at        INTEGER,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    executed_at    INTEGER,
    fingerprint    TEXT,
    name           TEXT,
    correlation_id TEXT    NOT NULL,
    progress       TEXT    NOT NULL,
    spec           TEXT    NOT NULL,  -- last, so that a long one is not in the way of the others
    UNIQUE (tenant, "group", timer_id)
) STRICT;

-- What needs attention now, in the order of waking; the shard is here so that it filters unread.
CREATE INDEX timers_due ON timers (wake_at, id, shard) WHERE wake_at IS NOT NULL;

-- What may be dropped.
CREATE INDEX timers_finished ON timers (updated_at, shard)
    WHERE status IN ('completed', 'failed', 'canceled');

-- Lists. Each index costs every insert, so a filter without one of its own walks along one of
-- these. That of the status is rewritten with every claim, which measured as next to nothing.
CREATE INDEX timers_created ON timers (tenant, created_at, id);
CREATE INDEX timers_execute ON timers (tenant, execute_at, id);
CREATE INDEX timers_status ON timers (tenant, status, created_at, id);
CREATE INDEX timers_correlation ON timers (tenant, correlation_id, created_at, id);
CREATE INDEX timers_name ON timers (tenant, name) WHERE name IS NOT NULL;

CREATE TABLE tags (
    tenant TEXT NOT NULL,
    tag    TEXT NOT NULL,
    timer  TEXT NOT NULL,
    PRIMARY KEY (tenant, tag, timer)
) STRICT, WITHOUT ROWID;
CREATE INDEX tags_timer ON tags (timer);

CREATE TABLE attempts (
    timer       TEXT    NOT NULL,
    occurrence  INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    node        TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    next_at     INTEGER,
    outcome     TEXT    NOT NULL,
    PRIMARY KEY (timer, occurrence, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    id    TEXT    NOT NULL PRIMARY KEY,
    shard INTEGER NOT NULL,
    body  TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE records (
    kind    TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    data    BLOB    NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
