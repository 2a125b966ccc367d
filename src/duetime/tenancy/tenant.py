"""A tenant: whose timers, groups and keys are kept apart from everybody else's."""

import msgspec

from duetime.clock import Millis
from duetime.tenancy.quotas import UNLIMITED, Quotas

KIND = "tenant"


class Tenant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tenant, as it is stored."""

    name: str
    title: str | None = None  # for people
    quotas: Quotas = UNLIMITED
    created_at: Millis
    updated_at: Millis
    # Gone, but for its name, which nobody gets again: they would find what it left.
    deleted_at: Millis | None = None
