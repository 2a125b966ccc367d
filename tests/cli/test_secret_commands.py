"""duetime secret: what is sent, and that the secret is printed once and in its place."""

import io
import json
import sys

import pytest

from duetime.cli.output import Screen
from duetime.clock import SystemClock, to_rfc3339
from tests.fake_service import ok, refused
from tests.webhook_vector import OTHER, SECRET

pytestmark = pytest.mark.promise("no-secret")

ID = "9f1c0e5a77d2b364"
KEPT = f"Keep it: the signing secret {ID} is never shown again.\n"


def a_secret(**fields):
    return {
        "id": ID,
        "group": None,
        "fingerprint": "0a1b2c3d",
        "is_active": True,
        "created_at": to_rfc3339(SystemClock().now() - 7_200_000),
        "created_by": "operator",
        "expires_at": None,
        **fields,
    }


def test_a_new_secret_is_alone_on_standard_output(call, service):
    """So that it can be captured; that it is never shown again is said elsewhere."""
    service.answer = lambda _: ok(a_secret(secret=SECRET))
    flags = ["--group", "carts", "--expires-in", "365d", "--tenant", "acme"]
    ended = call("secret", "create", *flags)
    assert ended == (0, SECRET + "\n", KEPT)
    request = service.requests[0]
    assert (request.method, request.target) == ("POST", "/signing-secrets")
    assert request.headers["x-tenant-id"] == "acme"
    assert request.json == {"group": "carts", "expires_in": "365d"}


def test_a_new_secret_on_a_terminal_is_among_what_is_known_of_it(call, service, monkeypatch):
    """People want to see what they have made."""
    init = Screen.__init__

    def on_terminal(self, *args):
        init(self, *args)
        self.is_terminal = True

    monkeypatch.setattr(Screen, "__init__", on_terminal)
    service.answer = lambda _: ok(a_secret(secret=SECRET))
    ended = call("secret", "create")
    assert f"id           {ID}\ngroup        all others\n" in ended.out
    assert ended.out.endswith(f"secret       {SECRET}\n")
    assert ended.out.count(SECRET) == 1
    assert SECRET not in ended.err


def test_as_json(call, service):
    """All that the service answered."""
    answer = a_secret(secret=SECRET)
    service.answer = lambda _: ok(answer)
    assert json.loads(call("secret", "create", "--json").out) == answer


@pytest.mark.parametrize("verb", [["create"], ["rotate", ID]])
def test_an_answer_without_a_secret_is_an_error(call, service, verb):
    """A script must not go on with nothing."""
    service.answer = lambda _: ok(a_secret())
    ended = call("secret", *verb)
    assert (ended.code, ended.out) == (1, "")
    assert "the service's answer has no 'secret'" in ended.err


@pytest.mark.parametrize("from_stdin", [False, True])
def test_a_secret_of_ones_own(call, service, tmp_path, monkeypatch, from_stdin):
    """It comes from a file or from standard input, and is not printed."""
    (tmp_path / "own.txt").write_text(f"{OTHER}\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{OTHER}\n"))
    service.answer = lambda _: ok(a_secret(secret=None))
    file = "-" if from_stdin else "own.txt"
    ended = call("secret", "create", "--secret-file", file)
    assert ended == (0, "", f"The signing secret {ID} is the one that you gave.\n")
    assert service.requests[0].json == {"secret": OTHER}
    if not from_stdin:
        call("secret", "rotate", ID, "--secret-file", file)
        assert service.requests[1].json == {"secret": OTHER}


@pytest.mark.parametrize("content", ["", "hunter2", f"{SECRET}\n{OTHER}\n"])
def test_a_file_that_does_not_hold_one_secret(call, service, tmp_path, content):
    """Nothing is sent, and nothing of it is repeated."""
    (tmp_path / "own.txt").write_text(content)
    ended = call("secret", "create", "--secret-file", "own.txt")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("duetime: --secret-file: ")
    assert "hunter2" not in ended.err
    assert service.requests == []


def test_rotate_and_revoke(call, service):
    """By the id; the new secret is printed like one that was made."""
    service.answer = lambda _: ok(a_secret(secret=SECRET))
    assert call("secret", "rotate", ID, "--valid-for", "7d") == (0, SECRET + "\n", KEPT)
    assert call("secret", "revoke", ID).out == f"Revoked the signing secret {ID}.\n"
    first, second = service.requests
    assert (first.method, first.target) == ("POST", f"/signing-secrets/{ID}/rotate")
    assert first.json == {"valid_for": "7d"}
    assert (second.method, second.target) == ("DELETE", f"/signing-secrets/{ID}")


@pytest.mark.parametrize("verb", ["rotate", "revoke"])
def test_who_passes_the_secret_itself(call, service, verb):
    """It is not sent, and not repeated."""
    ended = call("secret", verb, SECRET)
    assert (ended.code, ended.out) == (2, "")
    assert "must be the id of the secret" in ended.err
    assert SECRET not in ended.err
    assert service.requests == []


def test_secrets_are_a_table(call, service):
    """Each with whose it is; the secrets themselves nobody is shown."""
    secrets = [a_secret(), a_secret(id="02", group="carts", expires_at="2020-01-01T00:00:00Z")]
    service.answer = lambda _: ok({"signing_secrets": secrets})
    heads, first, second = call("secret", "list").out.splitlines()
    assert heads.split() == ["ID", "GROUP", "FINGERPRINT", "EXPIRES", "CREATED", "BY"]
    assert first.split() == [ID, "all", "others", "0a1b2c3d", "never", "2h", "ago", "operator"]
    assert second.split()[:3] == ["02", "carts", "0a1b2c3d"]
    service.answer = lambda _: ok({"signing_secrets": []})
    assert call("secret", "list", "--group", "carts").out == "No signing secrets.\n"
    assert service.requests[-1].target == "/signing-secrets?group=carts"


def test_reseal(call, service):
    """What no key opens is named, and a script can tell by the exit code."""
    service.answer = lambda _: ok({"kept": 3, "resealed": 2, "unreadable": []})
    assert call("secret", "reseal") == (0, "2 of 3 secrets were sealed anew.\n", "")
    lost = {"kind": "signing_secret", "tenant": "acme", "id": ID}
    service.answer = lambda _: ok({"kept": 3, "resealed": 2, "unreadable": [lost]})
    ended = call("secret", "reseal")
    assert (ended.code, ended.out.splitlines()[0]) == (1, f"cannot be opened: {ID} of acme")
    assert json.loads(call("secret", "reseal", "--json").out)["unreadable"] == [lost]


def test_a_service_that_cannot_keep_secrets(call, service):
    """What it says is passed on, with the exit code of a conflict."""
    told = "signing secret: the service has no SECRETS_KEY to keep secrets with"
    service.answer = lambda _: refused(409, 5, told)
    ended = call("secret", "create")
    assert (ended.code, ended.out) == (5, "")
    assert told in ended.err
