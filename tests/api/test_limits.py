"""Limits of callbacks, as they are set and shown."""

import pytest

from tests.api.client import Api

NONE = {"concurrency": None, "per_second": None, "burst": None}


@pytest.mark.parametrize(
    ("make", "path"),
    [("/groups", "/groups/acme"), ("/tenants", "/tenants/acme")],
)
async def test_limits_are_set_changed_and_taken_away(api: Api, make: str, path: str):
    """What is not named stays as it is, and null takes it away."""
    limits = {"concurrency": 20, "per_second": 50.5, "burst": 5}
    made = await api.post(make, {"name": "acme", "limits": limits})
    assert (made.status, made.data["limits"]) == (201, limits)
    changed = await api.put(path, {"limits": {"concurrency": 3}})
    assert changed.data["limits"] == limits | {"concurrency": 3}
    assert (await api.put(path, {"title": "x"})).data["limits"] == changed.data["limits"]
    assert (await api.get(path)).data["limits"] == changed.data["limits"]
    slower = await api.put(path, {"limits": {"per_second": None}})
    assert slower.data["limits"] == NONE | {"concurrency": 3}  # a burst goes with its rate
    assert (await api.put(path, {"limits": None})).data["limits"] == NONE


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"concurrency": 0}, "limits.concurrency"),
        ({"concurrency": 1.5}, "limits.concurrency"),
        ({"per_second": 0}, "limits.per_second"),
        ({"per_second": "fast"}, "limits.per_second"),
        ({"burst": 0, "per_second": 1}, "limits.burst"),
        ({"burst": 5}, "limits.burst"),
        ({"bursts": 5}, "limits"),
    ],
)
@pytest.mark.parametrize("path", ["/groups/acme", "/tenants/default"])
async def test_limits_that_make_no_sense_are_refused(api: Api, path, limits, field):
    """The error names the field, and nothing is changed."""
    refused = await api.put(path, {"title": "x", "limits": limits})
    assert refused.status == 400
    assert refused.message.startswith(field)
    found = await api.get(path)
    assert found.status == 404 or found.data["title"] is None


async def test_usage_shows_the_limits(api: Api):
    """Of the tenant, and of each group that has some, be it empty."""
    await api.put("/tenants/default", {"limits": {"per_second": 7}})
    await api.put("/groups/mail", {"limits": {"concurrency": 2}})
    usage = (await api.get("/usage")).data
    assert usage["limits"] == NONE | {"per_second": 7}
    groups = {group["group"]: group["limits"] for group in usage["groups"]}
    assert groups["mail"] == NONE | {"concurrency": 2}


async def test_a_change_of_limits_is_in_the_audit(api: Api):
    """With what they are now."""
    await api.put("/tenants/default", {"limits": {"per_second": 7}})
    [line] = (await api.get("/audit", action="tenant.update")).data["lines"]
    assert line["details"]["limits"] == {"per_second": 7.0}
