"""Tenancy: who may do what, with which timers, and how many of them.

``tenant.py``, ``api_key.py`` and ``group.py`` are the documents that are stored; ``rules.py`` is
what a node knows of them all, and ``obedience.py`` how to know that every node goes by them.
``tenants.py``, ``api_keys.py`` and ``groups.py`` are what can be done with them. ``caller.py`` is
who asks, ``role.py`` what they may do, and ``uses.py`` when their key was used last. ``quotas.py``
is how much they may have; ``meter.py`` holds them to it, with ``bucket.py`` for what comes in a
second and ``waiting.py`` for what is there, and ``usage.py`` tells. ``credential.py`` and the files
around it are what callbacks authenticate with, and ``wallet.py`` is what delivery sees of it.
"""
