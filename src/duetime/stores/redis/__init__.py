"""Timers in Redis: Lua scripts decide every change, and sorted sets are the indexes."""
