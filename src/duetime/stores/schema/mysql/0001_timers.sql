-- Timers, their execution log, the outbox and the small documents. Times are milliseconds.
-- Texts are bytes: then they are compared byte by byte by every server of the family, trailing
-- spaces count, and none is refused. Why it is laid out like this, and what it was measured
-- against: docs/stores/mysql.md. A step that was interrupted is run again, so it must bear that.

-- What the user asked for. It is written once and rarely changed, so it may have many indexes.
CREATE TABLE IF NOT EXISTS timers (
    id             BINARY(16)      NOT NULL PRIMARY KEY,
    tenant         VARBINARY(1020) NOT NULL,
    `group`        VARBINARY(1020) NOT NULL,
    timer_id       VARBINARY(1020) NOT NULL,
    execute_at     BIGINT          NOT NULL,
    created_at     BIGINT          NOT NULL,
    fingerprint    VARBINARY(1020),
    name           VARBINARY(1020),
    correlation_id VARBINARY(1020) NOT NULL,
    spec           LONGBLOB        NOT NULL,
    UNIQUE KEY timers_key (tenant, `group`, timer_id),
    -- Lists. The order of ids is the order of creation.
    KEY timers_created (tenant, id),
    KEY timers_execute (tenant, execute_at, id),
    KEY timers_correlation (tenant, correlation_id, id),
    KEY timers_name (tenant, name, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- How far each has come: a small row, changed by every claim and every outcome.
CREATE TABLE IF NOT EXISTS states (
    id          BINARY(16)      NOT NULL PRIMARY KEY,
    wake_at     BIGINT,
    updated_at  BIGINT          NOT NULL,
    executed_at BIGINT,
    finished_at BIGINT,         -- updated_at of one that has come to its end
    version     INT             NOT NULL,
    weight      INT             NOT NULL,
    shard       SMALLINT        NOT NULL,
    status      VARBINARY(16)   NOT NULL,
    tenant      VARBINARY(1020) NOT NULL,
    progress    LONGBLOB        NOT NULL,
    -- What needs attention now, with all that the engine asks for, so that no row is read for it.
    KEY states_due (wake_at, id, shard, version, weight, status),
    -- What may be dropped.
    KEY states_finished (finished_at, shard),
    -- Lists by status.
    KEY states_status (tenant, status, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS tags (
    tenant VARBINARY(1020) NOT NULL,
    tag    VARBINARY(1020) NOT NULL,
    timer  BINARY(16)      NOT NULL,
    PRIMARY KEY (tenant, tag, timer),
    KEY tags_timer (timer)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS attempts (
    timer       BINARY(16)      NOT NULL,
    occurrence  INT             NOT NULL,
    attempt     INT             NOT NULL,
    started_at  BIGINT          NOT NULL,
    finished_at BIGINT          NOT NULL,
    next_at     BIGINT,
    node        VARBINARY(1020) NOT NULL,
    outcome     LONGBLOB        NOT NULL,
    PRIMARY KEY (timer, occurrence, attempt)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS events (
    id    BINARY(16) NOT NULL PRIMARY KEY,
    shard SMALLINT   NOT NULL,
    body  LONGBLOB   NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS records (
    kind    VARBINARY(1020) NOT NULL,
    name    VARBINARY(1020) NOT NULL,
    version BIGINT          NOT NULL,
    writes  BIGINT          NOT NULL,  -- so that each write changes something, and is counted
    data    LONGBLOB        NOT NULL,
    PRIMARY KEY (kind, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
