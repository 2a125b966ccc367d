"""duetime tenant: what is sent to the service, and what is printed."""

import json

import pytest

from duetime.clock import SystemClock, to_rfc3339
from tests.fake_service import KEY, ok

QUOTAS = {"creates_per_second": 12.5, "pending": 100_000, "payload_bytes": None, "batch_size": 500}


def a_tenant(**fields):
    created_at = to_rfc3339(SystemClock().now() - 7_200_000)
    return {"name": "acme", "title": "Acme", "quotas": QUOTAS, "created_at": created_at, **fields}


def test_create_sends_what_was_given_and_nothing_else(call, service):
    """Quotas that are not named have no limit, and are not mentioned."""
    service.answer = lambda _: ok(a_tenant())
    quotas = ["--quota", "pending=10", "--quota", "creates-per-second=2.5"]
    assert call("tenant", "create", "acme").code == 0
    assert call("tenant", "create", "acme", "--title", "Acme", *quotas).code == 0
    first, second = service.requests
    assert (first.method, first.target, first.json) == ("POST", "/tenants", {"name": "acme"})
    assert first.headers["x-api-key"] == KEY
    assert second.json == {
        "name": "acme",
        "title": "Acme",
        "quotas": {"pending": 10, "creates_per_second": 2.5},
    }


def test_limits_are_set_and_taken_away(call, service):
    """By names, like quotas; and shown where there are some."""
    service.answer = lambda _: ok(a_tenant(limits={"per_second": 50.0, "concurrency": 20}))
    shown = call("tenant", "update", "acme", "--limit", "per-second=50", "--limit", "burst=none")
    assert service.requests[0].json == {"limits": {"per_second": 50.0, "burst": None}}
    assert "20 at once, 50.0 a second" in shown.out
    assert call("tenant", "update", "acme", "--unset", "limits").code == 0
    assert service.requests[1].json == {"limits": None}


@pytest.mark.parametrize("limit", ["concurrency=1.5", "per_second", "pending=3"])
def test_a_limit_that_is_none_is_told_by_its_flag(limit, call, service):
    """Before anything is sent."""
    ended = call("tenant", "create", "acme", "--limit", limit)
    assert (ended.code, service.requests) == (2, [])
    assert "argument --limit: " in ended.err


@pytest.mark.parametrize("quota", ["pending", "pending=many", "timers=3", "=3", "batch_size=1.5"])
def test_a_quota_that_is_none_is_told_by_its_flag(quota, call, service):
    """Before anything is sent."""
    ended = call("tenant", "create", "acme", "--quota", quota)
    assert ended.code == 2
    assert "argument --quota: " in ended.err
    assert service.requests == []


def test_tenants_are_a_table(call, service):
    """With the most that each may have, and a dash where there is no limit."""
    others = [{"name": "default", "title": None, "quotas": {}, "created_at": None}]
    service.answer = lambda _: ok({"tenants": [a_tenant(), *others]})
    heads, first, second = call("tenant", "list").out.splitlines()
    assert heads.split() == ["NAME", "CREATES/S", "PENDING", "PAYLOAD", "BATCH", "CREATED", "TITLE"]
    assert first.split() == ["acme", "12.5", "100,000", "-", "500", "2h", "ago", "Acme"]
    assert second.split() == ["default", "-", "-", "-", "-", "-", "-"]
    assert service.requests[0].target == "/tenants"


def test_no_tenants(call, service):
    """An empty list is told of in words."""
    service.answer = lambda _: ok({"tenants": []})
    assert call("tenant", "list").out == "No tenants.\n"


def test_a_tenant_is_shown_for_people_or_as_json(call, service):
    """In lines, without what could take over a terminal; or as the service answered."""
    answer = a_tenant(title="a\x1b[31m", new=[1])
    service.answer = lambda _: ok(answer)
    out = call("tenant", "get", "acme").out
    assert "title        a\N{REPLACEMENT CHARACTER}[31m\n" in out
    limits = "12.5 creates a second, 100,000 pending timers, 500 timers in a batch"
    assert f"at most      {limits}\n" in out
    assert json.loads(call("tenant", "get", "acme", "--json").out) == answer
    assert service.requests[0].target == "/tenants/acme"


def test_an_update_keeps_the_quotas_that_it_does_not_name(call, service):
    """Only those that are named are sent."""
    service.answer = lambda _: ok(a_tenant())
    quotas = ["--quota", "pending=5", "--quota", "batch_size=none"]
    assert call("tenant", "update", "acme", *quotas).code == 0
    [changed] = service.requests
    assert (changed.method, changed.target) == ("PUT", "/tenants/acme")
    assert changed.json == {"quotas": {"pending": 5, "batch_size": None}}


def test_an_update_takes_back(call, service):
    """With --unset, and without a look at what was there."""
    service.answer = lambda _: ok(a_tenant())
    call("tenant", "update", "acme", "--unset", "quotas", "--title", "A")
    assert [request.json for request in service.requests] == [{"title": "A", "quotas": None}]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "name what to change"),
        (["--unset", "title", "--title", "A"], "--unset title: it is also set"),
        (["--unset", "name"], "invalid choice"),
    ],
)
def test_an_update_of_nothing_is_not_sent(flags, told, call, service):
    """Nor one that says two things."""
    ended = call("tenant", "update", "acme", *flags)
    assert ended.code == 2
    assert told in ended.err
    assert service.requests == []


def test_delete_says_what_is_gone(call, service):
    """In a sentence, or as the service answered."""
    service.answer = lambda _: ok({"name": "acme"})
    assert call("tenant", "delete", "acme", "--yes").out == "Deleted the tenant acme.\n"
    ended = call("tenant", "delete", "acme", "--json", "--yes")
    assert json.loads(ended.out) == {"name": "acme"}
    assert (service.requests[0].method, service.requests[0].target) == ("DELETE", "/tenants/acme")


def test_the_tenant_to_act_for_comes_from_the_surroundings(run, service, monkeypatch, tmp_path):
    """A flag, else the environment, else .env; else the service knows by the key."""
    service.answer = lambda _: ok({"timers": [], "nodes": []})
    monkeypatch.setenv("DUETIME_URL", service.url)
    run("nodes")
    (tmp_path / ".env").write_text("DUETIME_TENANT=from-dotenv\n")
    run("nodes")
    monkeypatch.setenv("DUETIME_TENANT", "from-env")
    run("timer", "list")
    run("timer", "list", "--tenant", "from-flag")
    tenants = [request.headers.get("x-tenant-id") for request in service.requests]
    assert tenants == [None, "from-dotenv", "from-env", "from-flag"]


@pytest.mark.parametrize(("typed", "is_done"), [("y\n", True), ("\n", False), ("", False)])
def test_delete_asks_on_a_terminal(typed, is_done, call, service, at_a_terminal):
    """Since nobody gets that name again."""
    service.answer = lambda _: ok({"name": "acme"})
    at_a_terminal(typed)
    ended = call("tenant", "delete", "acme")
    question = "Delete the tenant acme with its keys and groups? Nobody gets its name again. [y/N] "
    assert ended.err == question + ("" if is_done else "Nothing was done.\n")
    assert ended.code == (0 if is_done else 1)
    assert len(service.requests) == is_done


def test_delete_is_not_done_where_nobody_can_be_asked(call, service):
    """But with --yes."""
    ended = call("tenant", "delete", "acme")
    assert ended.code == 2
    assert "nobody can be asked here: say --yes to do it" in ended.err
    assert service.requests == []
