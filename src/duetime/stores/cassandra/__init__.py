"""Cassandra and ScyllaDB: ``store.py`` is the store, and every other file one noun it is made of.

| file | its noun |
|---|---|
| `address.py` | where the cluster is, and how to work with it |
| `session.py` | the driver, as asyncio sees it |
| `schema.py` | the keyspace and its tables, brought up to date |
| `rows.py`, `statements.py` | what a timer is made of in a partition, and the CQL for it |
| `pieces.py` | what is written for one timer, and how to tell that it lost |
| `lane.py`, `lanes.py` | the writes of one shard, one batch after the other; and of all shards |
| `fence.py` | what makes sure that a write without an answer is over |
| `shards.py` | which shards hold anything, and where what is due begins in them |
| `floors.py` | raises that beginning, past what is dead |
| `writes.py`, `reads.py`, `records.py` | changes, questions, and small documents |
| `lines.py` | the lines of the audit |
| `crowd.py` | one question to many shards |
| `due_line.py` | what is due in one shard, as far as it was read |
| `rounds.py` | how far a purge has come in each shard |
| `stretch.py`, `cuts.py` | rows that are read part by part, and where those begin |
| `errors.py` | what the engine throws, as the contract wants it |
| `traits.py` | what the engine can do |
"""
