"""A target: a receiver of one tenant's callbacks, with limits and a switch to pause it.

Users call it by its host and port, as in ``api.example.com:443``. One that nobody has anything to
say about has no document.
"""

import msgspec

from duetime.clock import Millis
from duetime.tenancy.limits import BOUNDLESS, Limits

KIND = "target"


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A target, as it is stored."""

    tenant: str
    name: str  # as Sender.target says it
    limits: Limits = BOUNDLESS
    paused_at: Millis | None = None  # by hand; None: it is not
    paused_until: Millis | None = None  # None: until it is resumed
    paused_by: str | None = None  # the name of the key
    reason: str | None = None
    resumed_at: Millis | None = None  # the last time: what nodes found wrong with it before is void
    created_at: Millis
    updated_at: Millis

    def is_paused(self, now: Millis) -> bool:
        """Tell whether nothing may be sent to it."""
        if self.paused_at is None:
            return False
        return self.paused_until is None or now < self.paused_until


def name_of(tenant: str, target: str) -> str:
    """What a tenant's target is called among all; the name of a tenant has no space."""
    return f"{tenant} {target}"
