"""PostgreSQL: ``store.py`` is the store, and every other file one noun that it is made of.

| file | its noun |
|---|---|
| `address.py` | where the database is, and how to work with it |
| `session.py`, `pool.py` | a connection, and a bounded number of them |
| `schema.py` | the tables, brought up to date |
| `reads.py`, `writes.py` | questions and changes |
| `statements.py`, `values.py` | the SQL of changes, and how values are written |
| `fate.py` | what became of a write whose connection was lost |
| `news.py` | what nodes tell each other |
| `errors.py` | what the engine throws, as the contract wants it |
| `traits.py` | what the engine can do |
"""
