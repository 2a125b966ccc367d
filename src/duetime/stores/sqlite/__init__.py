"""SQLite: ``store.py`` is the store, and every other file one noun that it is made of.

| file | its noun |
|---|---|
| `file.py` | the database file, and connections to it |
| `reads.py`, `writes.py` | questions, changes |
| `rows.py`, `values.py` | what they carry: rows, and many of them in one statement |
| `writer.py` | the one thread that writes, many to a commit |
| `traits.py` | what the engine can do |
"""
