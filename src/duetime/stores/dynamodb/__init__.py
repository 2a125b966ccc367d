"""DynamoDB: ``store.py`` is the store, and every other file one noun that it is made of.

| file | its noun |
|---|---|
| `address.py`, `credentials.py` | where the table is, and who asks |
| `wire.py`, `signing.py` | one request and its answer, and its signature |
| `calls.py`, `at_once.py` | requests repeated with patience, and many at once |
| `batches.py`, `pages.py` | requests for many items, and answers in pages |
| `errors.py` | what the engine throws, told apart |
| `table.py` | the table, made and checked |
| `keys.py`, `items.py` | where everything lies, and how it is written |
| `timers.py`, `attempts.py`, `due.py` | what is read |
| `events.py`, `records.py`, `shards.py` | the small things that are read and written |
| `inserts.py`, `changes.py`, `beside.py`, `expiry.py` | what is written |
| `walks.py` | whole shards, read along |
| `sweep.py`, `leftovers.py` | the whole table, read along, and what is tidied up there |
| `traits.py` | what the engine can do |
"""
