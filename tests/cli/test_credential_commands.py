"""duetime credential: what is sent to the service, and that no secret is an argument or shown."""

import io
import sys

import pytest

from duetime.clock import SystemClock, to_rfc3339
from tests.fake_service import ok, refused

SECRET = "marked-secret-of-the-bank"
PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"


def a_credential(**fields):
    return {
        "name": "bank",
        "type": "bearer",
        "hosts": ["api.bank.example", "*.pay.example"],
        "allow_http": False,
        "groups": None,
        "username": None,
        "header": None,
        "certificate_info": None,
        "created_at": to_rfc3339(SystemClock().now() - 7_200_000),
        "created_by": "operator",
        "updated_at": to_rfc3339(SystemClock().now() - 3_600_000),
        **fields,
    }


@pytest.fixture
def files(tmp_path):
    """Files as they are made with an editor, which puts an end of line behind the secret."""
    (tmp_path / "secret").write_text(SECRET + "\n")
    (tmp_path / "chain.pem").write_text(PEM)
    (tmp_path / "ca.pem").write_text(PEM * 2)
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")


SCOPE = "--host api.bank.example --host *.pay.example --group a --group b --allow-http"
SCOPE_FIELDS = {
    "hosts": ["api.bank.example", "*.pay.example"],
    "groups": ["a", "b"],
    "allow_http": True,
}


@pytest.mark.promise("no-secret")
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("flags", "fields"),
    [
        ("--type bearer", {"type": "bearer", "token": SECRET}),
        (f"--type bearer {SCOPE}", {"type": "bearer", "token": SECRET, **SCOPE_FIELDS}),
        ("--type basic --username u", {"type": "basic", "username": "u", "password": SECRET}),
        ("--type header --header X-Key", {"type": "header", "header": "X-Key", "value": SECRET}),
        (
            "--type mtls --certificate chain.pem --authorities ca.pem",
            {"type": "mtls", "certificate": PEM, "authorities": PEM * 2, "private_key": SECRET},
        ),
        (
            """--type oauth2 --token-url https://l.example/ --client-id c --scope s --audience a
            --auth-style body""",
            {
                "type": "oauth2",
                "token_url": "https://l.example/",
                "client_id": "c",
                "scope": "s",
                "audience": "a",
                "auth_style": "body",
                "client_secret": SECRET,
            },
        ),
    ],
)
def test_create_knows_every_field(call, service, flags, fields):
    """Each flag has its place in the body, and the secret the name that its type has for it."""
    service.answer = lambda _: (201, {"code": 0, "message": "", "data": a_credential()})
    ended = call("credential", "create", "bank", *flags.split(), "--secret-file", "secret")
    assert ended.code == 0, ended
    [request] = service.requests
    assert (request.method, request.target) == ("POST", "/credentials")
    assert request.json == {"name": "bank", **fields}
    assert SECRET not in ended.out + ended.err


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_secret_comes_from_standard_input(call, service, monkeypatch, end):
    """Without the end of its line."""
    service.answer = lambda _: ok(a_credential())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((SECRET + end).encode())))
    ended = call("credential", "create", "bank", "--type", "bearer", "--secret-file", "-")
    assert (ended.code, service.requests[0].json["token"]) == (0, SECRET)


@pytest.mark.promise("no-secret")
def test_a_secret_comes_from_the_environment(call, service, monkeypatch):
    """Which only you and root can read."""
    service.answer = lambda _: ok(a_credential())
    monkeypatch.setenv("BANK", SECRET)
    ended = call("credential", "create", "bank", "--type", "bearer", "--secret-env", "BANK")
    assert (ended.code, service.requests[0].json["token"]) == (0, SECRET)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--secret-env", "NONE"], "--secret-env: NONE is not set"),
        (["--secret-file", "none"], "--secret-file: cannot read none: No such file or directory"),
        (["--secret-file", "empty"], "--secret-file: there is nothing in it"),
        (["--secret-file", "bytes"], "--secret-file: bytes is not a text in UTF-8"),
        (["--certificate", "none"], "--certificate: cannot read none: No such file or directory"),
        (["--secret-file", "secret", "--secret-env", "X"], "not allowed with argument"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_sent(call, service, flags, told):
    """With the flag that is wrong."""
    ended = call("credential", "create", "bank", "--type", "bearer", *flags)
    assert ended.code == 2
    assert told in ended.err
    assert service.requests == []


@pytest.mark.usefixtures("files")
def test_a_secret_is_set_anew(call, service):
    """Under the name that it has in a credential of that type."""
    service.answer = lambda _: ok(a_credential(type="oauth2"))
    assert call("credential", "set", "bank", "--secret-file", "secret").code == 0
    asked, sent = service.requests
    assert (asked.method, asked.target) == ("GET", "/credentials/bank")
    assert (sent.method, sent.target) == ("PUT", "/credentials/bank")
    assert sent.json == {"client_secret": SECRET}


def test_set_changes_what_is_named(call, service):
    """And nothing else; what is unset is null."""
    service.answer = lambda _: ok(a_credential())
    flags = ["--host", "h.example", "--no-allow-http", "--unset", "groups", "--unset", "scope"]
    assert call("credential", "set", "bank", *flags).code == 0
    [sent] = service.requests
    assert sent.json == {
        "hosts": ["h.example"],
        "allow_http": False,
        "groups": None,
        "scope": None,
    }
    ended = call("credential", "set", "bank")
    assert ended.code == 2
    assert "name what to change" in ended.err


def test_credentials_are_shown_for_people(call, service):
    """One line each, or all about one."""
    info = {"subject": "CN=us", "issuer": "CN=them", "not_after": "2119-12-08T00:00:00Z"}
    mtls = a_credential(name="partner", type="mtls", groups=["a"], certificate_info=info)
    service.answer = lambda _: ok({"credentials": [a_credential(), mtls]})
    listed = call("credential", "list").out.splitlines()
    assert listed[0].split() == ["NAME", "TYPE", "HOSTS", "GROUPS", "EXPIRES", "CHANGED"]
    assert "api.bank.example, *.pay.example" in listed[1]
    assert listed[2].startswith("partner  mtls")
    service.answer = lambda _: ok(mtls)
    shown = call("credential", "show", "partner").out
    for line in ("subject      CN=us", "issuer       CN=them", "groups       a"):
        assert f"{line}\n" in shown
    service.answer = lambda _: ok({"credentials": []})
    assert call("credential", "list").out == "No credentials.\n"


def test_delete(call, service):
    """Says so, or why not."""
    service.answer = lambda _: ok({"name": "bank"})
    assert call("credential", "delete", "bank").out == "Deleted the credential bank.\n"
    assert (service.requests[0].method, service.requests[0].target) == (
        "DELETE",
        "/credentials/bank",
    )
    service.answer = lambda _: refused(409, 5, "credential: the group 'g' gives it to its timers")
    ended = call("credential", "delete", "bank")
    assert (ended.code, "gives it to its timers" in ended.err) == (5, True)
