"""An outage: the log hears what callers are not told of a store that fails, once while it lasts."""

import logging

from duetime.clock import Clock
from duetime.errors import StoreError

log = logging.getLogger("duetime.api")

OVER_AFTER = 60.0  # seconds without a failure; one that comes later is told again


class Outage:
    """Tells the log of failures."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._over_at = clock.monotonic()

    def seen(self, error: StoreError) -> None:
        """Take note of one."""
        now = self._clock.monotonic()
        if now >= self._over_at:
            log.error("requests fail, and their callers are not told why: %s", error)
        self._over_at = now + OVER_AFTER
