"""MySQL, MariaDB and TiDB: ``store.py`` is the store, and every other file one noun of it.

| file | its noun |
|---|---|
| `address.py` | where the database is, and how to work with it |
| `dialect.py` | what the family does not agree on |
| `session.py`, `pool.py` | a connection, and a bounded number of them |
| `schema.py` | the tables, brought up to date |
| `reads.py`, `searches.py`, `writes.py` | questions, lists and changes |
| `statements.py`, `literals.py`, `rows.py` | the SQL of changes, values in it, and rows as read |
| `fate.py` | what became of a write whose connection was lost |
| `errors.py` | what the engine throws, as the contract wants it |
| `traits.py` | what the engine can do |
"""
