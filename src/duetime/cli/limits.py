"""Limits of the operating system: a node needs an open file for every connection that it has."""

import logging

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

log = logging.getLogger("duetime")

# Beyond the callbacks: connections at rest and of clients, the database, and what Python has open.
SPARE = 1_500


def allow_open_files(max_in_flight: int) -> None:
    """Raise the process's own limit as far as needed, or say that the system's is too low."""
    if resource is None:
        return
    needed = max_in_flight + SPARE
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY or allowed >= needed:
        return
    possible = needed if most == resource.RLIM_INFINITY else min(needed, most)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (possible, most))
    except (OSError, ValueError):  # some systems have a lower limit that they do not tell
        possible = allowed
    if possible < needed:
        log.warning(
            "only %d files may be open at once, and up to %d may be needed: raise the limit "
            "(ulimit -n, or LimitNOFILE of a systemd unit), or lower MAX_IN_FLIGHT",
            possible,
            needed,
        )
