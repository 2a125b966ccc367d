"""The caller: on whose behalf a request acts, and how far that goes."""

import msgspec

from duetime.errors import Forbidden
from duetime.tenancy.role import Role
from duetime.timer import DEFAULT_TENANT, Timer


class Caller(msgspec.Struct, frozen=True):
    """Who asks. All that they see or change belongs to their tenant."""

    tenant: str
    role: Role = Role.OPERATOR
    name: str = "operator"  # of the key
    key: str | None = None  # its id; the operator's has none
    groups: frozenset[str] | None = None  # the only ones that there are for them; None: all
    address: str | None = None  # where the request came from
    correlation_id: str | None = None

    @property
    def is_operator(self) -> bool:
        return self.role is Role.OPERATOR

    def may(self, role: Role) -> bool:
        """Tell whether they may do what takes this role."""
        return self.role.includes(role)

    def sees(self, timer: Timer) -> bool:
        """Tell whether there is such a timer for them."""
        return timer.tenant == self.tenant and self.sees_group(timer.group)

    def sees_group(self, group: str) -> bool:
        """Tell whether there is such a group for them."""
        return self.groups is None or group in self.groups

    def check_group(self, group: str) -> None:
        """Refuse to put anything into a group that their key is not for."""
        if not self.sees_group(group):
            raise Forbidden(f"group: this key is not for the group '{group}'")


OPERATOR = Caller(DEFAULT_TENANT)  # who acts for the tenant that there is from the beginning

NATS = "nats"  # whose name stands where NATS itself has let somebody ask

SERVICE = "duetime"  # whose name stands where nobody is known to have asked
