"""duetime target: what is sent to the service, what is printed, and how it ends."""

import json

import pytest

from tests.fake_service import envelope, ok


def a_target(**fields):
    return {
        "name": "api.example.com:443",
        "state": "ok",
        "since": None,
        "until": None,
        "paused_by": None,
        "reason": None,
        "failures": 0,
        "last_error": None,
        "waiting": 1_200,
        "under_way": 8,
        "limits": {"concurrency": 5, "per_second": 50.0, "burst": None},
        **fields,
    }


PAUSED = a_target(
    state="paused",
    since="2020-01-01T00:00:00Z",
    until="2999-01-01T00:00:00Z",
    paused_by="ops",
    reason="an upgrade",
)
FAILING = a_target(name="b.example:80", state="failing", failures=12, last_error="HTTP 500")


def test_targets_are_a_table(call, service):
    """Each with how it is, and why."""
    service.answer = lambda _: ok({"targets": [a_target(), PAUSED, FAILING]})
    heads, first, second, third = call("target", "list").out.splitlines()
    assert heads.split()[:4] == ["TARGET", "STATE", "UNTIL", "WAITING"]
    assert first.split() == ["api.example.com:443", "ok", "-", "1,200", "8", "-"]
    assert second.split()[1] == "paused"
    assert second.endswith("an upgrade")
    assert third.split()[:2] == ["b.example:80", "failing"]
    assert third.endswith("HTTP 500")
    assert service.requests[-1].target == "/targets"
    service.answer = lambda _: ok({"targets": []})
    assert call("target", "list").out == "No targets that there is something to tell of.\n"


def test_a_target_is_shown_for_people_or_as_json(call, service):
    """With its limits, and what is wrong with it."""
    service.answer = lambda _: ok(PAUSED)
    shown = call("target", "show", "api.example.com").out
    assert service.requests[-1].target == "/targets/api.example.com"
    for words in ("paused", "an upgrade", "ops", "5 at once, 50.0 a second"):
        assert words in shown
    assert json.loads(call("target", "show", "api.example.com", "--json").out) == PAUSED
    service.answer = lambda _: ok(FAILING)
    shown = call("target", "show", "[::1]:80").out
    assert service.requests[-1].target == "/targets/%5B%3A%3A1%5D%3A80"
    assert "HTTP 500" in shown
    assert "12" in shown


@pytest.mark.parametrize(
    ("flags", "body"),
    [
        ([], {}),
        (["--for", "30m"], {"for": "30m"}),
        (
            ["--until", "2030-01-01T00:00:00Z", "--reason", "an upgrade"],
            {"until": "2030-01-01T00:00:00Z", "reason": "an upgrade"},
        ),
    ],
)
def test_pause_sends_what_was_said(flags, body, call, service):
    """Each flag has its place in the body, and nothing else is in it."""
    service.answer = lambda _: ok(PAUSED)
    assert call("target", "pause", "api.example.com", *flags).code == 0
    [sent] = service.requests
    assert (sent.method, sent.target) == ("POST", "/targets/api.example.com/pause")
    assert sent.json == body


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_what_not_all_nodes_have_confirmed_ends_with_1(verb, call, service):
    """It is told, and so is how to wait on."""
    service.answer = lambda _: (202, envelope(PAUSED, message="not every node has confirmed"))
    ended = call("target", verb, "api.example.com")
    assert ended.code == 1
    assert "not every node has confirmed" in ended.err
    assert "The same command again waits for them." in ended.err


def test_limit_sends_only_what_is_named(call, service):
    """None takes a limit back."""
    service.answer = lambda _: ok(a_target())
    flags = ["--per-second", "0.5", "--concurrency", "none", "--burst", "7"]
    assert call("target", "limit", "api.example.com", *flags).code == 0
    assert call("target", "limit", "api.example.com", "--concurrency", "3").code == 0
    first, second = service.requests
    assert (first.method, first.target) == ("PUT", "/targets/api.example.com")
    assert first.json == {"limits": {"concurrency": None, "per_second": 0.5, "burst": 7}}
    assert second.json == {"limits": {"concurrency": 3}}


def test_a_target_is_forgotten(call, service):
    """And it is said."""
    service.answer = lambda _: ok({"name": "api.example.com:443"})
    assert call("target", "forget", "api.example.com").out.startswith("Forgot")
    [sent] = service.requests
    assert (sent.method, sent.target) == ("DELETE", "/targets/api.example.com")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("limit a.example", "name what to limit"),
        ("pause https://a.example/hook", "must be a host and port"),
        ("limit a.example --burst 1.5", "must be a number or none"),
        ("limit a.example --per-second fast", "must be a number or none"),
        ("pause a.example --for soon", "not 'soon'"),
        ("pause a.example --for 1h --until 2030-01-01T00:00:00Z", "--until or --for, not both"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_sent(command, told, call, service):
    """Wrong usage says what to do, sends nothing and exits with 2."""
    ended = call("target", *command.split())
    assert ended.code == 2
    assert told in ended.err
    assert service.requests == []
