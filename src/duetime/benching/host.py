"""The host of a virtual machine: what its other guests take of the processors."""

from duetime.benching import usage


class Host:
    """Begins to count when it is made."""

    def __init__(self) -> None:
        self._before = _seconds()

    @property
    def taken(self) -> float | None:
        """The share that others had of the time in which a processor was wanted here.

        None if this system does not tell, or if nothing was wanted.
        """
        now = _seconds()
        if now is None or self._before is None:
            return None
        wanted, stolen = (after - before for after, before in zip(now, self._before, strict=True))
        return stolen / wanted if wanted > 0 else None


def _seconds() -> tuple[float, float] | None:
    """For how long processors were wanted so far, and others had them."""
    if not usage.is_known():
        return None
    return usage.machine_seconds()[0], usage.stolen_seconds()
