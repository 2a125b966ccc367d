"""Events: what happened to timers, from the outbox of the store to whoever wants to hear of it."""
