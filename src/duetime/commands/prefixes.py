"""Prefixes: what the subjects of commands begin with, and for which tenant they are."""

from collections.abc import Iterable
from typing import NamedTuple

from duetime.nats.subjects import untoken


class Prefix(NamedTuple):
    """What subjects begin with: those of one tenant, or of all, with each one's name in it."""

    pattern: str  # "orders", or "duetime.*"
    tenant: str | None = None  # None: the last part of it names the tenant

    @property
    def name(self) -> str:
        """What it is called where there may be no dots."""
        return self.pattern.removesuffix(".*").replace(".", "-")

    def tenant_of(self, subject: str) -> str:
        """Whose a subject is that begins so and has two parts more; nobody has no name."""
        if self.tenant is not None:
            return self.tenant
        return untoken(subject.rsplit(".", 3)[1]) or ""


def prefixes(prefix: str, tenants: Iterable[tuple[str, str]]) -> list[Prefix]:
    """Those that settings name for tenants, or else the one that all of them share."""
    named = [Prefix(subject, tenant) for subject, tenant in tenants]
    return named or [Prefix(f"{prefix}.*")]
