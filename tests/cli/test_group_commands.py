"""duetime group: what is sent to the service, what is printed, and how it ends."""

import json

import pytest

from tests.fake_service import envelope, ok, refused


def a_group(**fields):
    return {
        "name": "carts",
        "title": None,
        "num_shards": 16,
        "is_paused": False,
        "paused_at": None,
        "resuming": None,
        "on_resume": "latest",
        "retry_policy": {"max_attempts": 5},
        "timeout": "10s",
        "headers": {"X-Source": "duetime"},
        "retention": None,
        "response_bytes": 1024,
        "response_headers": ["x-request-id", "etag"],
        "response_schema": {"type": "object"},
        "signatures": ["webhook"],
        "quotas": {"pending": 50_000, "batch_size": 10, "payload_bytes": None},
        "created_at": "2026-01-01T00:00:00.000Z",
        **fields,
    }


FLAGS = """--title T --num-shards 16 --on-resume none --timeout 5s --retention 7d
    --response-bytes 10 --response-header X-A --response-header X-B
    --response-schema {"type":"object"} --signature timer --signature webhook
    --header A:1 --header B:2 --credential bank --max-attempts 3 --jitter 0 --quota pending=9
    --limit concurrency=4
    --on-failure https://told.example"""
FIELDS = {
    "title": "T",
    "num_shards": 16,
    "on_resume": "none",
    "timeout": "5s",
    "retention": "7d",
    "response_bytes": 10,
    "response_headers": ["X-A", "X-B"],
    "response_schema": {"type": "object"},
    "signatures": ["timer", "webhook"],
    "credential": "bank",
    "headers": {"A": "1", "B": "2"},
    "retry_policy": {"max_attempts": 3, "jitter": 0},
    "quotas": {"pending": 9},
    "on_failure": {"callback": {"type": "http", "url": "https://told.example"}},
    "limits": {"concurrency": 4},
}


def test_create_knows_every_field(call, service):
    """Each flag has its place in the body, and nothing else is in it."""
    service.answer = lambda _: ok(a_group())
    assert call("group", "create", "carts").code == 0
    assert call("group", "create", "carts", *FLAGS.split()).code == 0
    first, second = service.requests
    assert (first.method, first.target, first.json) == ("POST", "/groups", {"name": "carts"})
    assert second.json == {"name": "carts", **FIELDS}


def test_set_keeps_the_quotas_that_it_does_not_name(call, service):
    """Only those that are named are sent."""
    service.answer = lambda _: ok(a_group())
    flags = ["--quota", "pending=none", "--quota", "payload_bytes=7", "--unset", "timeout"]
    assert call("group", "set", "carts", *flags).code == 0
    [changed] = service.requests
    assert (changed.method, changed.target) == ("PUT", "/groups/carts")
    assert changed.json == {"quotas": {"pending": None, "payload_bytes": 7}, "timeout": None}


def test_a_schema_comes_from_a_file(call, service, tmp_path, monkeypatch):
    """As it is there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "answer.json").write_text('{"minimum": 1.50}\n')
    service.answer = lambda _: ok(a_group())
    assert call("group", "set", "carts", "--response-schema", "@answer.json").code == 0
    assert service.requests[-1].body == b'{"response_schema":{"minimum": 1.50}}'


@pytest.mark.parametrize(
    "field",
    [
        "response_bytes",
        "response_headers",
        "response_schema",
        "signatures",
        "credential",
        "on_resume",
        "on_failure",
    ],
)
def test_set_takes_back_what_has_a_default(field, call, service):
    """By null, which the service knows as the default."""
    service.answer = lambda _: ok(a_group())
    assert call("group", "set", "carts", "--unset", field).code == 0
    assert service.requests[-1].json == {field: None}


def test_set_makes_a_group_that_is_not_there(call, service):
    """With the quotas that were given."""
    service.answer = lambda _: ok(a_group())
    assert call("group", "set", "new", *FLAGS.split()).code == 0
    assert service.requests[-1].json == FIELDS


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "name what to change"),
        (["--timeout", "5s", "--unset", "timeout"], "--unset timeout: it is also set"),
        (["--header", "X"], "must be 'Name: value'"),
        (["--on-resume", "some"], "invalid choice"),
        (["--response-schema", "type: object"], "--response-schema: must be JSON"),
        (["--response-schema", "@missing.json"], "cannot read missing.json: No such file"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_sent(flags, told, call, service):
    """Wrong usage says what to do, sends nothing and exits with 2."""
    ended = call("group", "set", "carts", *flags)
    assert ended.code == 2
    assert told in ended.err
    assert service.requests == []


def test_groups_are_a_table(call, service):
    """Each with how it stands."""
    groups = [
        a_group(),
        a_group(name="b", is_paused=True, paused_at="2020-01-01T00:00:00Z", title="B"),
        a_group(name="c", resuming="01"),
    ]
    service.answer = lambda _: ok({"groups": groups})
    heads, first, second, third = call("group", "list").out.splitlines()
    assert heads.split()[:3] == ["NAME", "STATE", "SHARDS"]
    assert first.split() == ["carts", "active", "16", "-", "50,000", "-", "10", "-"]
    assert second.split()[:2] == ["b", "paused"]
    assert third.split()[:2] == ["c", "resuming"]
    service.answer = lambda _: ok({"groups": []})
    assert call("group", "list").out == "No groups.\n"


def test_a_group_is_shown_for_people_or_as_json(call, service):
    """With what its timers get."""
    service.answer = lambda _: ok(a_group())
    out = call("group", "get", "carts").out
    assert "status       active\n" in out
    assert 'retry policy {"max_attempts":5}\n' in out
    assert "response     1,024 bytes are kept\n" in out
    assert "and headers  x-request-id, etag\n" in out
    assert 'must match   {"type":"object"}\n' in out
    assert "at most      50,000 pending timers, 10 timers in a batch\n" in out
    assert json.loads(call("group", "get", "carts", "--json").out) == a_group()


def test_pause_and_resume_are_posted(call, service):
    """To the path of each."""
    service.answer = lambda _: ok(a_group(is_paused=True, paused_at="2020-01-01T00:00:00Z"))
    paused = call("group", "pause", "carts")
    assert (paused.code, paused.err) == (0, "")
    assert "status       paused " in paused.out
    service.answer = lambda _: (202, envelope(a_group(resuming="01")))
    resumed = call("group", "resume", "carts")
    assert (resumed.code, resumed.err) == (0, "")
    assert "resuming     01\n" in resumed.out
    sent = [f"{request.method} {request.target}" for request in service.requests]
    assert sent == ["POST /groups/carts/pause", "POST /groups/carts/resume"]


def test_a_pause_that_not_all_nodes_have_confirmed_is_no_success(call, service):
    """So that `pause && next` does what it says."""
    service.answer = lambda _: (202, envelope(a_group(is_paused=True), message="not all yet"))
    ended = call("group", "pause", "carts")
    assert ended.code == 1
    assert "status       paused" in ended.out
    assert ended.err == "duetime: not all yet\nThe same command again waits for them.\n"


def test_to_cancel_is_asked_about(call, service, at_a_terminal):
    """On a terminal; elsewhere it takes --yes. A group alone is taken away without that."""
    service.answer = lambda _: ok({"name": "carts"})
    refused_here = call("group", "delete", "carts", "--cancel")
    assert refused_here.code == 2
    assert "nobody can be asked here: say --yes to do it" in refused_here.err
    at_a_terminal("no\n")
    ended = call("group", "delete", "carts", "--cancel")
    assert (ended.code, service.requests) == (1, [])
    assert ended.err.startswith("Delete the group carts, and cancel all of its timers that are")
    at_a_terminal("yes\n")
    assert call("group", "delete", "carts", "--cancel").code == 0
    assert call("group", "delete", "carts").err == ""
    assert len(service.requests) == 2


def test_delete_cancels_only_if_told(call, service):
    """The service refuses otherwise, and says why."""
    service.answer = lambda _: ok({"name": "carts"})
    assert call("group", "delete", "carts").out == "Deleted the group carts.\n"
    ended = call("group", "delete", "carts", "--cancel", "--json", "--yes")
    assert json.loads(ended.out)["name"] == "carts"
    sent = [f"{request.method} {request.target}" for request in service.requests]
    assert sent == ["DELETE /groups/carts", "DELETE /groups/carts?cancel=true"]
    service.answer = lambda _: refused(409, 5, "group: 3 of its timers are still to come")
    ended = call("group", "delete", "carts")
    assert ended.code == 5
    assert ended.err == "duetime: group: 3 of its timers are still to come\n"
