-- oldest: 1
-- The lines of the audit: a partition for each hour of a tenant's, so that none grows without end.
-- Nothing is ever deleted there, it only expires, on every server at the same second. So what has
-- expired cannot come back, need not be remembered (gc_grace_seconds), and is in no reader's way.
CREATE TABLE IF NOT EXISTS duetime.lines (
    tenant text,
    hour int,
    id text,
    body text,
    PRIMARY KEY ((tenant, hour), id)
) WITH gc_grace_seconds = 0
    AND speculative_retry = '100ms'
    AND compaction = {
        'class': 'TimeWindowCompactionStrategy',
        'compaction_window_unit': 'DAYS',
        'compaction_window_size': 7
    };

-- Which hours of a tenant's have lines, and for how many seconds these are kept (0: for ever): a row
-- for each, so that one who keeps them shortly does not end the row of another.
CREATE TABLE IF NOT EXISTS duetime.hours (
    tenant text,
    hour int,
    kept_for int,
    PRIMARY KEY ((tenant), hour, kept_for)
) WITH gc_grace_seconds = 0
    AND speculative_retry = '100ms'
    AND compaction = {'class': 'LeveledCompactionStrategy'};
