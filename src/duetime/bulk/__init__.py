"""Bulk: one thing done to all timers that match a filter, in the background.

``action.py`` is the document that is stored; ``verbs.py`` is what each verb does to one timer, and
``resuming.py`` what becomes of timers whose group was paused. ``pages.py`` reads some timers at a
time and ``batch.py`` writes them, ``clerk.py`` goes through all of them, and ``archive.py`` keeps
what has ended. ``actions.py`` is what can be done with actions, and ``requests.py`` what users
send; ``reading.py`` is how those who ask learn of them, from a ``catalogue.py``. ``beginning.py``
brings groups and the actions that they wait for together, whatever got lost, and ``emptying.py``
says when a group may be deleted.

**The count is right, whoever dies when.** Before a batch is written, its ids stand in the record of
the action, with the counts of all batches before it. A timer carries the id of the action that
changed it. So whoever takes an action up reads the timers of the open batch: those that carry its
id are done, the others are tried again. Who loses the record to somebody else stops.
"""
