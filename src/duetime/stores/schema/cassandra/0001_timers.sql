-- oldest: 1
-- A partition for each shard. Everything of a timer lies in it, for a conditional batch writes to
-- one partition only; kind says what a row is, and its place (at, id, n) means something else for
-- each. docs/stores/cassandra.md has the table. The keyspace is that of the installation.
CREATE TABLE IF NOT EXISTS duetime.timers (
    shard int,
    kind tinyint,
    at bigint,
    id text,
    n bigint,
    epoch bigint static,
    floor_at bigint static,
    floor_id text static,
    version bigint,
    timer text,
    state text,
    spec text,
    heavy text,
    weight bigint,
    is_claimed boolean,
    body text,
    PRIMARY KEY ((shard), kind, at, id, n)
) WITH compaction = {'class': 'LeveledCompactionStrategy'};

-- Which shards hold anything, and where the reading of what is due begins in each.
CREATE TABLE IF NOT EXISTS duetime.shards (
    everything tinyint,
    shard int,
    head_at bigint,
    head_id text,
    PRIMARY KEY ((everything), shard)
);

CREATE TABLE IF NOT EXISTS duetime.records (
    kind text,
    name text,
    version bigint,
    data blob,
    PRIMARY KEY ((kind), name)
) WITH compaction = {'class': 'LeveledCompactionStrategy'};
