"""duetime key: what is sent to the service, and that the key is printed once and in its place."""

import json

import pytest

from duetime.cli.output import Screen
from duetime.clock import SystemClock, to_rfc3339
from tests.fake_service import KEY, ok, refused

ID = "9f1c0e5a77d2b364"
TEXT = f"dt_{ID}_thesecretofthekey"


def a_key(**fields):
    return {
        "id": ID,
        "tenant": "acme",
        "name": "ci",
        "role": "write",
        "groups": None,
        "prefix": f"dt_{ID}",
        "created_at": to_rfc3339(SystemClock().now() - 7_200_000),
        "created_by": "operator",
        "expires_at": None,
        "last_used_at": None,
        **fields,
    }


def test_a_new_key_is_alone_on_standard_output(call, service):
    """So that it can be captured; that it is never shown again is said elsewhere."""
    service.answer = lambda _: (201, {"code": 0, "message": "", "data": a_key(key=TEXT)})
    flags = ["--role", "write", "--group", "a", "--group", "b", "--expires-in", "90d"]
    ended = call("key", "create", "ci", "--tenant", "acme", *flags)
    assert (ended.code, ended.out) == (0, TEXT + "\n")
    assert ended.err == f"Keep it: the key {ID} is never shown again.\n"
    request = service.requests[0]
    assert (request.method, request.target) == ("POST", "/tenants/acme/keys")
    assert request.headers["x-tenant-id"] == "acme"
    assert request.json == {
        "name": "ci",
        "role": "write",
        "groups": ["a", "b"],
        "expires_in": "90d",
    }


def test_a_new_key_in_a_pipe(spawn, service):
    """In a process of its own, as $(...) runs it."""
    service.answer = lambda _: ok(a_key(key=TEXT))
    flags = ["--role", "read", "--tenant", "acme", "--server", service.url, "--api-key", KEY]
    process = spawn("key", "create", "ci", *flags)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, TEXT + "\n")
    assert TEXT not in err


def test_a_new_key_on_a_terminal_is_among_what_is_known_of_it(call, service, monkeypatch):
    """People want to see what they have made."""
    init = Screen.__init__

    def on_terminal(self, *args):
        init(self, *args)
        self.is_terminal = True

    monkeypatch.setattr(Screen, "__init__", on_terminal)
    service.answer = lambda _: ok(a_key(key=TEXT))
    ended = call("key", "create", "ci", "--role", "write", "--tenant", "acme")
    assert f"id           {ID}\n" in ended.out
    assert "groups       all\nexpires      never\n" in ended.out
    assert ended.out.endswith(f"key          {TEXT}\n")
    assert ended.out.count(TEXT) == 1
    assert TEXT not in ended.err


def test_a_new_key_as_json(call, service):
    """All that the service answered."""
    answer = a_key(key=TEXT)
    service.answer = lambda _: ok(answer)
    ended = call("key", "create", "ci", "--role", "write", "--tenant", "acme", "--json")
    assert json.loads(ended.out) == answer


def test_an_answer_without_a_key_is_an_error(call, service):
    """A script must not go on with nothing."""
    service.answer = lambda _: ok(a_key())
    ended = call("key", "create", "ci", "--role", "write", "--tenant", "acme")
    assert (ended.code, ended.out) == (1, "")
    assert "the service's answer has no 'key'" in ended.err


def test_the_tenant_is_the_keys_own(call, service):
    """The service tells which that is."""
    own, none = ok({"tenant": "own"}), ok({"keys": []})
    service.answer = lambda request: own if request.path == "/whoami" else none
    assert call("key", "list").out == "No keys.\n"
    assert service.requests[-1].target == "/tenants/own/keys"


def test_a_tenant_that_cannot_be_found_out_is_an_error(call, service):
    """Nothing is made for the wrong one."""
    service.answer = lambda _: refused(401, 4, "unauthorized")
    assert call("key", "create", "ci", "--role", "read").code == 4
    assert [request.path for request in service.requests] == ["/whoami"]


def test_keys_are_a_table(call, service):
    """Each with what it is for; the keys themselves nobody knows."""
    keys = [a_key(), a_key(id="02", groups=["a", "b"], last_used_at="2020-01-01T00:00:00Z")]
    service.answer = lambda _: ok({"keys": keys})
    heads, first, second = call("key", "list", "--tenant", "acme").out.splitlines()
    columns = ["ID", "NAME", "ROLE", "GROUPS", "EXPIRES", "USED", "CREATED", "BY"]
    assert heads.split() == columns
    assert first.split() == [ID, "ci", "write", "all", "never", "-", "2h", "ago", "operator"]
    assert "  a, b  " in second


@pytest.mark.parametrize("named", [ID, f"dt_{ID}", TEXT])
def test_a_key_is_named_by_its_id(named, call, service):
    """Who passes the key itself means its id: the secret is not sent, nor printed."""
    service.answer = lambda _: ok(a_key(id=ID, key=TEXT))
    revoked = call("key", "revoke", named, "--tenant", "acme")
    assert revoked.out == f"Revoked the key {ID}.\n"
    rotated = call("key", "rotate", named, "--tenant", "acme", "--valid-for", "1h")
    assert (rotated.code, rotated.out) == (0, TEXT + "\n")
    first, second = service.requests
    assert (first.method, first.target) == ("DELETE", f"/tenants/acme/keys/{ID}")
    assert (second.method, second.target) == ("POST", f"/tenants/acme/keys/{ID}/rotate")
    assert second.json == {"valid_for": "1h"}


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "the following arguments are required: --role"),
        (["--role", "operator"], "invalid choice: 'operator'"),
        (["--role", "read", "--expires-in", "soon"], "--expires-in: must be a duration"),
        (["--role", "read", "--expires-in", "1d", "--expires-at", "x"], "not allowed with"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_sent(flags, told, call, service):
    """Wrong usage names the flag, sends nothing and exits with 2."""
    ended = call("key", "create", "ci", *flags)
    assert ended.code == 2
    assert told in ended.err
    assert service.requests == []
