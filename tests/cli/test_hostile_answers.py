"""Whatever a service answers, a command ends with a sentence and an exit code, and tells no key."""

import socket

import pytest

from tests.fake_service import KEY, ok, refused

pytestmark = pytest.mark.slow  # there are many of them

COMMANDS = [
    "tenant create acme",
    "tenant list",
    "tenant get acme",
    "tenant update acme --title A",
    "tenant update acme --quota pending=3",
    "tenant delete acme --yes",
    "key create ci --role read --tenant acme",
    "key create ci --role read",
    "key list --tenant acme",
    "key rotate 01 --tenant acme",
    "key revoke 01 --tenant acme",
    "group create g",
    "group list",
    "group get g",
    "group set g --timeout 5s",
    "group set g --quota pending=3",
    "group pause g",
    "group resume g",
    "group delete g --cancel --yes",
    "target list",
    "target show a.example",
    "target pause a.example --for 1h",
    "target resume a.example",
    "target limit a.example --per-second 5",
    "target forget a.example",
    "usage",
    "whoami",
    "audit list",
    "audit list --all",
    "audit export",
    "action start cancel --all --yes",
    "action start cancel --all --dry-run",
    "action list",
    "action get 01",
    "action cancel 01",
    "action watch 01",
]


@pytest.fixture(params=COMMANDS)
def command(request, call):
    return lambda: call(*request.param.split())


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [(401, 4, 4), (403, 10, 4), (404, 3, 3), (409, 5, 5), (500, 1, 1)],
)
def test_a_refusal_is_told_with_its_exit_code(status, code, expected, command, service):
    """On standard error, and without the key."""
    service.answer = lambda _: refused(status, code, "the reason\x1b[31m")
    ended = command()
    assert (ended.code, ended.out) == (expected, "")
    assert ended.err.startswith("duetime: the reason\N{REPLACEMENT CHARACTER}[31m\n")
    assert KEY not in ended.err


def test_too_many_requests_say_when_to_try_again(command, service):
    """In seconds, on a line of its own."""
    service.answer = lambda _: refused(429, 7, "quota: too many", Retry_After="17")
    ended = command()
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "duetime: quota: too many\nTry again in 17 s.\n"


# One each of what a service of another make or version might say.
ODD = [
    None,
    [],
    "text",
    {},
    dict.fromkeys(("name", "key", "id", "tenant", "state", "groups", "keys", "lines")),
    dict.fromkeys(("name", "key", "id", "tenant", "quotas", "timers", "created_at"), 7),
    {name: [None] for name in ("tenants", "keys", "groups", "lines", "actions", "state", "tenant")},
    {name: [{}] for name in ("tenants", "keys", "groups", "lines", "actions", "state", "tenant")},
]


@pytest.mark.parametrize("data", ODD)
def test_an_odd_answer_is_no_traceback(data, command, service):
    """It is shown as far as that goes, or told to be odd."""
    service.answer = lambda _: ok(data)
    ended = command()
    assert ended.code in {0, 1}
    assert "None" not in ended.out
    if ended.code and not ended.out:
        assert ended.err.startswith("duetime: ")
    assert KEY not in ended.err


def test_a_page_of_somebody_else_is_told_as_such(command, service):
    """Such as that of a proxy."""
    service.answer = lambda _: (200, b"<html>")
    ended = command()
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "duetime: HTTP 200, and not the answer of a Duetime service\n"


@pytest.mark.parametrize("argv", COMMANDS)
def test_a_service_that_is_not_there_is_named(argv, run):
    """With its address, and without the key."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        ended = run(*argv.split(), "--server", url, "--api-key", KEY)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"duetime: cannot reach {url}: ")
    assert KEY not in ended.err
