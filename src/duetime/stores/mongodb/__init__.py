"""MongoDB: ``store.py`` is the store, and every other file one noun that it is made of.

| file | its noun |
|---|---|
| `address.py` | where the database is, and how to work with it |
| `connection.py` | the driver's client, with what every call runs with |
| `lane.py` | how many may ask at once, and how long each may take |
| `schema.py` | the collections and their indexes, brought up to date |
| `reads.py`, `lists.py` | questions by id, key and time, and those that users ask |
| `writes.py`, `telling.py` | changes, and those that tell of events |
| `transaction.py` | all of it or nothing |
| `purging.py` | what is dropped when it is old |
| `records.py` | small versioned documents |
| `documents.py` | how a timer is written, and read back |
| `barrier.py` | what makes a read see all that was acknowledged before |
| `fate.py` | what became of a write whose answer was lost |
| `numbering.py` | whether a write had a number, by which that can be told |
| `news.py` | what nodes tell each other |
| `errors.py` | what the engine throws, as the contract wants it |
| `traits.py` | what the engine can do |
"""
