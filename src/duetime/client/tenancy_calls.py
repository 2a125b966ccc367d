"""The calls about tenants, their keys, groups and usage, as values."""

from urllib.parse import quote

from duetime.client.calls import Call
from duetime.client.tenancy_types import (
    Deleted,
    Group,
    GroupChange,
    Groups,
    Key,
    Keys,
    MadeKey,
    NewGroup,
    NewKey,
    NewTenant,
    Revoked,
    Tenant,
    TenantChange,
    Tenants,
    Usage,
    Whoami,
)

# Seconds: such a call is answered when every node obeys, which the service awaits for up to 30.
_UNTIL_ALL_OBEY = 60.0


def create_tenant(tenant: NewTenant) -> Call[Tenant]:
    return Call("POST", "/tenants", tenant, needs="name")


def tenants() -> Call[Tenants]:
    return Call("GET", "/tenants", needs="tenants", needs_type=list)


def get_tenant(name: str) -> Call[Tenant]:
    return Call("GET", _tenant(name), needs="name")


def update_tenant(name: str, change: TenantChange) -> Call[Tenant]:
    return Call("PUT", _tenant(name), change, needs="name")


def delete_tenant(name: str) -> Call[Deleted]:
    return Call("DELETE", _tenant(name), patience=_UNTIL_ALL_OBEY)


def create_key(tenant: str, key: NewKey) -> Call[MadeKey]:
    return Call("POST", f"{_tenant(tenant)}/keys", key, needs="key")


def keys(tenant: str) -> Call[Keys]:
    return Call("GET", f"{_tenant(tenant)}/keys", needs="keys", needs_type=list)


def get_key(tenant: str, id_: str) -> Call[Key]:
    return Call("GET", _key(tenant, id_), needs="id")


def rotate_key(tenant: str, id_: str, valid_for: str | None) -> Call[MadeKey]:
    body = {} if valid_for is None else {"valid_for": valid_for}
    return Call("POST", f"{_key(tenant, id_)}/rotate", body, needs="key")


def revoke_key(tenant: str, id_: str) -> Call[Revoked]:
    return Call("DELETE", _key(tenant, id_))


def create_group(group: NewGroup) -> Call[Group]:
    return Call("POST", "/groups", group, needs="name")


def groups() -> Call[Groups]:
    return Call("GET", "/groups", needs="groups", needs_type=list)


def get_group(name: str) -> Call[Group]:
    return Call("GET", _group(name), needs="name")


def put_group(name: str, change: GroupChange) -> Call[Group]:
    return Call("PUT", _group(name), change, needs="name")


def delete_group(name: str, *, cancel: bool) -> Call[Deleted]:
    query = {"cancel": "true"} if cancel else {}
    return Call("DELETE", _group(name), query=query, patience=_UNTIL_ALL_OBEY)


def pause_group(name: str) -> Call[Group]:
    return Call("POST", f"{_group(name)}/pause", needs="name", patience=_UNTIL_ALL_OBEY)


def resume_group(name: str) -> Call[Group]:
    return Call("POST", f"{_group(name)}/resume", needs="name", patience=_UNTIL_ALL_OBEY)


def whoami() -> Call[Whoami]:
    return Call("GET", "/whoami", needs="tenant")


def usage() -> Call[Usage]:
    return Call("GET", "/usage", needs="tenant")


def _tenant(name: str) -> str:
    return f"/tenants/{quote(name, safe='')}"


def _key(tenant: str, id_: str) -> str:
    return f"{_tenant(tenant)}/keys/{quote(id_, safe='')}"


def _group(name: str) -> str:
    return f"/groups/{quote(name, safe='')}"
