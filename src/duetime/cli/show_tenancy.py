"""How tenants, keys, groups and usage look to people."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from duetime.cli.cells import cell, inner, json, number, rows, show_lines, time
from duetime.cli.output import Screen, relative
from duetime.clock import Millis

_QUOTAS = ("creates_per_second", "pending", "payload_bytes", "batch_size")
_QUOTA_HEADS = ("CREATES/S", "PENDING", "PAYLOAD", "BATCH")

Row = Mapping[str, Any]


def show_tenants(screen: Screen, tenants: Iterable[Row], now: Millis) -> None:
    """The tenants, one line each, with the most that they may have."""
    lines = [
        (
            cell(tenant.get("name")),
            *_quotas(tenant),
            relative(tenant.get("created_at"), now),
            cell(tenant.get("title")),
        )
        for tenant in tenants
    ]
    _table(screen, ("NAME", *_QUOTA_HEADS, "CREATED", "TITLE"), lines, "No tenants.")


def show_tenant(screen: Screen, tenant: Row, now: Millis) -> None:
    """All about one tenant."""
    about = {"name": tenant.get("name"), "title": tenant.get("title")}
    times = {"created": time(tenant.get("created_at"), now)}
    if tenant.get("leaving_since"):
        times["leaving since"] = time(tenant.get("leaving_since"), now)
    show_lines(screen, about | _quota_lines(tenant) | times)


def show_keys(screen: Screen, keys: Iterable[Row], now: Millis) -> None:
    """The keys, one line each; the keys themselves nobody knows."""
    lines = [
        (
            cell(key.get("id")),
            cell(key.get("name")),
            cell(key.get("role")),
            cell(_groups(key)),
            relative(key.get("expires_at"), now) if key.get("expires_at") else "never",
            relative(key.get("last_used_at"), now),
            relative(key.get("created_at"), now),
            cell(key.get("created_by")),
        )
        for key in keys
    ]
    heads = ("ID", "NAME", "ROLE", "GROUPS", "EXPIRES", "USED", "CREATED", "BY")
    _table(screen, heads, lines, "No keys.")


def show_key(screen: Screen, key: Row, now: Millis) -> None:
    """All about one key, but for the key itself."""
    show_lines(
        screen,
        {
            "id": key.get("id"),
            "tenant": key.get("tenant"),
            "name": key.get("name"),
            "role": key.get("role"),
            "groups": _groups(key),
            "expires": time(key.get("expires_at"), now) or "never",
        },
    )


def show_groups(screen: Screen, groups: Iterable[Row], now: Millis) -> None:
    """The groups, one line each, with the most that they may have."""
    lines = [
        (
            cell(group.get("name")),
            _state(screen, group, now),
            cell(group.get("num_shards")),
            *_quotas(group),
            cell(group.get("title")),
        )
        for group in groups
    ]
    _table(screen, ("NAME", "STATE", "SHARDS", *_QUOTA_HEADS, "TITLE"), lines, "No groups.")


def show_group(screen: Screen, group: Row, now: Millis) -> None:
    """All about one group, and what its timers get."""
    about = {
        "name": group.get("name"),
        "title": group.get("title"),
        "status": _state(screen, group, now),
        "resuming": group.get("resuming"),
        "on resume": group.get("on_resume"),
        "shards": group.get("num_shards"),
        "timeout": group.get("timeout"),
        "retry policy": json(group.get("retry_policy")),
        "headers": json(group.get("headers") or None),
        "retention": group.get("retention"),
        "response": f"{number(group['response_bytes'])} bytes are kept"
        if group.get("response_bytes")
        else None,
        "and headers": ", ".join(map(str, group.get("response_headers") or ())),
        "must match": json(group.get("response_schema")),
        "signatures": json(group.get("signatures")),
        "credential": group.get("credential"),
        "on failure": json(group.get("on_failure")),
    }
    show_lines(
        screen, about | _quota_lines(group) | {"created": time(group.get("created_at"), now)}
    )


def show_whoami(screen: Screen, who: Row) -> None:
    """What a key is good for."""
    about = {name: who.get(name) for name in ("tenant", "name", "role", "key")}
    show_lines(screen, about | {"groups": _groups(who)})


def show_usage(screen: Screen, usage: Row, now: Millis) -> None:
    """How much a tenant has of what it may have, and each of its groups."""
    quotas = inner(usage, "quotas")
    rate = usage.get("creates_per_second")
    about = {
        "tenant": usage.get("tenant"),
        "counted": time(usage.get("counted_at"), now),
        "pending": _of(usage.get("pending"), quotas.get("pending")),
        "creates/s": _of(rate, quotas.get("creates_per_second")),
        "timers": _counts(usage),
    }
    others = {**quotas, "pending": None, "creates_per_second": None}
    limits = _quota_lines({**usage, "quotas": others})
    show_lines(screen, about | limits)
    lines = [
        (
            cell(group.get("group")),
            _of(group.get("pending"), inner(group, "quotas").get("pending")),
            most_callbacks(group) or "-",
            _counts(group) or "-",
        )
        for group in (rows(usage, "groups") if usage.get("groups") else [])
    ]
    if lines:
        screen.line()
        screen.table(("GROUP", "PENDING", "CALLBACKS", "TIMERS"), lines)


def _table(
    screen: Screen, heads: tuple[str, ...], lines: Sequence[Sequence[str]], nothing: str
) -> None:
    if lines:
        screen.table(heads, lines)
    else:
        screen.line(nothing)


def _quotas(row: Row) -> tuple[str, ...]:
    quotas = inner(row, "quotas")
    return tuple(number(quotas.get(name)) for name in _QUOTAS)


def _quota_lines(row: Row) -> dict[str, Any]:
    quotas = inner(row, "quotas")
    units = ("creates a second", "pending timers", "bytes of payload", "timers in a batch")
    limits = [
        f"{number(quotas[name])} {unit}"
        for name, unit in zip(_QUOTAS, units, strict=True)
        if quotas.get(name) is not None
    ]
    return {"at most": ", ".join(limits), "callbacks": most_callbacks(row)}


def most_callbacks(row: Row) -> str:
    """The most callbacks, if there are limits."""
    limits = inner(row, "limits")
    units = {"concurrency": "at once", "per_second": "a second", "burst": "in a burst"}
    return ", ".join(
        f"{number(limits[name])} {unit}"
        for name, unit in units.items()
        if limits.get(name) is not None
    )


def _groups(key: Row) -> str:
    groups = key.get("groups")
    return ", ".join(map(str, groups)) if isinstance(groups, list) else "all"


def _state(screen: Screen, group: Row, now: Millis) -> str:
    if group.get("is_paused"):
        return screen.colour("magenta", f"paused {relative(group.get('paused_at'), now)}")
    if group.get("resuming"):
        return screen.colour("yellow", "resuming")
    return screen.colour("green", "active")


def _counts(row: Row) -> str:
    counts = inner(row, "timers")
    return ", ".join(f"{number(count)} {cell(status)}" for status, count in counts.items())


def _of(value: Any, most: Any) -> str:
    return number(value) if most is None else f"{number(value)} of {number(most)}"
