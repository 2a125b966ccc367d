"""Tenancy: who may do what, with which timers, and how many of them.

``tenant.py``, ``api_key.py`` and ``group.py`` are the documents that are stored; ``rules.py`` is
what a node knows of them all; ``tenants.py``, ``api_keys.py`` and ``groups.py`` are what can be
done with them. ``caller.py`` is who asks, and ``role.py`` what they may do.
"""
