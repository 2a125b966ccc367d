"""How a request changes limits: what it does not name stays as it is."""

from msgspec import UNSET
from msgspec.structs import replace

from duetime.errors import InvalidRequest
from duetime.tenancy.limits import BOUNDLESS, Limits
from duetime.tenancy.requests import LimitsBody


def changed_limits(old: Limits, body: LimitsBody | None) -> Limits:
    """Limits with what a body changes of them; None: there are none any more.

    A burst is one of a rate, and goes with it.
    """
    if body is None:
        return BOUNDLESS
    given = {name: getattr(body, name) for name in body.__struct_fields__}
    new = replace(old, **{name: each for name, each in given.items() if each is not UNSET})
    if new.per_second is not None or new.burst is None:
        return new
    if body.burst is not UNSET:
        raise InvalidRequest("limits.burst: needs a limit per_second, whose burst it is")
    return replace(new, burst=None)
