-- Timers, their execution log, the outbox and the small documents. Times are milliseconds.
-- Every name is made in the schema of this installation. Why it is laid out like this, and what it
-- was measured against: docs/stores/postgresql.md.

-- What the user asked for. It is written once and rarely changed, so it may have many indexes.
CREATE TABLE timers (
    id             UUID   NOT NULL PRIMARY KEY,
    tenant         TEXT   NOT NULL COLLATE "C",
    "group"        TEXT   NOT NULL COLLATE "C",
    timer_id       TEXT   NOT NULL COLLATE "C",
    execute_at     BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    fingerprint    TEXT,
    name           TEXT   COLLATE "C",
    correlation_id TEXT   NOT NULL COLLATE "C",
    spec           TEXT   NOT NULL,
    UNIQUE (tenant, "group", timer_id)
) WITH (
    -- Room that was given back to the system would be needed again in a moment, and to give it
    -- back, a vacuum locks everybody out.
    vacuum_truncate = false
);

-- Lists in the order of creation, which is the order of ids: the one that is asked for most.
CREATE INDEX timers_created ON timers (tenant, id);
-- Lists with sort=execute_at, and those bounded by it.
CREATE INDEX timers_execute ON timers (tenant, execute_at, id);
-- All timers of one request or trace, in the order of creation.
CREATE INDEX timers_correlation ON timers (tenant, correlation_id, id);
-- Names by their beginning; most timers have none.
CREATE INDEX timers_name ON timers (tenant, name) WHERE name IS NOT NULL;

-- How far each has come: a small row, written anew by every claim and every outcome. PostgreSQL
-- then writes to every index of the table, so this one has as few as can be.
CREATE TABLE states (
    id          UUID     NOT NULL PRIMARY KEY,
    wake_at     BIGINT,
    updated_at  BIGINT   NOT NULL,
    executed_at BIGINT,
    version     INTEGER  NOT NULL,
    weight      INTEGER  NOT NULL,
    shard       SMALLINT NOT NULL,
    status      TEXT     NOT NULL COLLATE "C",
    tenant      TEXT     NOT NULL COLLATE "C",
    progress    TEXT     NOT NULL
) WITH (
    -- Dead rows are swept up early and often: what wakes is read past them.
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_threshold = 2000,
    autovacuum_analyze_scale_factor = 0.05,
    vacuum_truncate = false
);

-- What needs attention now, with all that the engine asks for, so that no row is read for it.
CREATE INDEX states_due ON states (wake_at, id) INCLUDE (shard, version, weight, status)
    WHERE wake_at IS NOT NULL;

-- What may be dropped; and what was completed, for lists.
CREATE INDEX states_finished ON states (updated_at)
    WHERE status IN ('completed', 'failed', 'canceled');

-- Lists by status, but for the one that nearly all end with.
CREATE INDEX states_status ON states (tenant, status, id) WHERE status <> 'completed';

CREATE TABLE tags (
    tenant TEXT NOT NULL COLLATE "C",
    tag    TEXT NOT NULL COLLATE "C",
    timer  UUID NOT NULL,
    PRIMARY KEY (tenant, tag, timer)
);
-- The tags of a timer that is written anew or dropped.
CREATE INDEX tags_timer ON tags (timer);

CREATE TABLE attempts (
    timer       UUID    NOT NULL,
    occurrence  INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    started_at  BIGINT  NOT NULL,
    finished_at BIGINT  NOT NULL,
    next_at     BIGINT,
    node        TEXT    NOT NULL,
    outcome     TEXT    NOT NULL,
    PRIMARY KEY (timer, occurrence, attempt)
) WITH (vacuum_truncate = false);

CREATE TABLE events (
    id    UUID     NOT NULL PRIMARY KEY,
    shard SMALLINT NOT NULL,
    body  TEXT     NOT NULL
) WITH (
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_scale_factor = 0.02,
    vacuum_truncate = false
);

CREATE TABLE records (
    kind    TEXT    NOT NULL COLLATE "C",
    name    TEXT    NOT NULL COLLATE "C",
    version BIGINT  NOT NULL,
    data    BYTEA   NOT NULL,
    PRIMARY KEY (kind, name)
) WITH (
    -- A few rows that are written every second: they stay on their page.
    fillfactor = 20,
    autovacuum_vacuum_threshold = 500
);
