"""Quotas: how much a tenant, or one of its groups, may have."""

import msgspec


class Quotas(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The most of each; None: as much as there is room for."""

    creates_per_second: float | None = None
    pending: int | None = None  # timers that wait, are paused, or are being delivered
    payload_bytes: int | None = None  # of one timer
    batch_size: int | None = None  # timers in one request


UNLIMITED = Quotas()


def tenant_in(name: str) -> str:
    """The tenant, in the name of a tenant or of a group of one."""
    return name.partition("/")[0]


def whose(name: str) -> str:
    """How a message calls whom a quota is for."""
    tenant, _, group = name.partition("/")
    return f"the group '{group}'" if group else f"the tenant '{tenant}'"
