"""The guard: does a change make Duetime do more work for a timer? Counted, so that noise cannot
fool it: instructions, statements and what stays in memory, never seconds.
"""
