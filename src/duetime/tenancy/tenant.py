"""A tenant: whose timers, groups and keys are kept apart from everybody else's."""

import msgspec

from duetime.clock import Millis
from duetime.tenancy.limits import BOUNDLESS, Limits
from duetime.tenancy.quotas import UNLIMITED, Quotas

KIND = "tenant"


class Tenant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tenant, as it is stored."""

    name: str
    title: str | None = None  # for people
    quotas: Quotas = UNLIMITED
    limits: Limits = BOUNDLESS
    created_at: Millis
    updated_at: Millis
    # Gone, but for its name, which nobody gets again: they would find what it left.
    deleted_at: Millis | None = None
    # It is being deleted: its keys open nothing, and nothing is made for it. Together with
    # deleted_at: it is gone, but some of its keys and groups may still have to be taken away.
    leaving_since: Millis | None = None

    @property
    def is_leaving(self) -> bool:
        """Tell whether it is being deleted, and there still."""
        return self.leaving_since is not None and self.deleted_at is None
