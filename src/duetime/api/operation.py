"""An operation is one method on one path: what it takes, what it answers, and who does it.

The same declaration routes the requests and describes them in /openapi.json.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from duetime.api.envelope import Reply
from duetime.api.request import Request
from duetime.tenancy.role import Role

Handler = Callable[[Request], Awaitable[Reply]]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method on one path."""

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    answer: Any  # the type of the envelope's data
    body: type | None = None
    parameters: type[msgspec.Struct] | None = None
    headers: tuple[str, ...] = ()  # request headers that mean something here
    success: tuple[int, ...] = (200,)
    failures: tuple[int, ...] = ()
    role: Role | None  # that it takes; None: it is open to everybody
    content_type: str = "application/json"  # of what it answers; another one is no envelope
    is_body_optional: bool = False
    outlives_tenant: bool = False  # the operator may ask for it of a tenant that was deleted, too
    makes: bool = False  # timers or groups, for which the tenant must be there to the end
    changes: bool = False  # timers or groups: refused while the tenant is being deleted, as `makes`
    is_bulk: bool = False  # the larger limit on bodies applies
