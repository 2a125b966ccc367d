"""duetime verify: a request is told genuine or not, by its exit code and in words."""

import io
import sys

import pytest

from duetime.delivery.signing import body_signatures, parse_secret
from tests.webhook_vector import BODY, HEADERS, OTHER, SECRET

pytestmark = pytest.mark.promise("signatures-fit")

THEN = "2021-02-25T15:02:10Z"  # the time of the vector
PLAIN = body_signatures([parse_secret(SECRET)], BODY)


@pytest.fixture
def body(tmp_path):
    path = tmp_path / "body.json"
    path.write_bytes(BODY)
    return str(path)


@pytest.fixture
def secret(monkeypatch):
    monkeypatch.setenv("WEBHOOK_SECRETS", SECRET)


def flags(**changed):
    given = {**HEADERS, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return [part for name, value in given.items() for part in ("--header", f"{name}: {value}")]


@pytest.mark.usefixtures("secret")
def test_the_published_vector(run, body):
    """What is genuine is told with its id and its time, and ends with 0."""
    ended = run("verify", body, *flags(), "--at", THEN)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == f"Genuine: {HEADERS['webhook-id']}, sent at {THEN}.\n"


@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize(
    ("changed", "at", "told"),
    [
        ({"webhook_id": "msg_other"}, THEN, "webhook-signature: is not made with this secret"),
        ({}, "2021-02-25T15:12:10Z", "webhook-timestamp: it was signed 600 s ago"),
        ({}, "2021-02-25T14:52:10Z", "webhook-timestamp: it was signed 600 s in the future"),
        ({"webhook_timestamp": "now"}, THEN, "webhook-timestamp: must be the time in whole"),
    ],
)
def test_what_is_not_genuine(run, body, changed, at, told):
    """It ends with 1, says why, and repeats no secret."""
    ended = run("verify", body, *flags(**changed), "--at", at)
    assert (ended.code, ended.out) == (1, "")
    assert told in ended.err
    assert SECRET.removeprefix("whsec_") not in ended.err


@pytest.mark.usefixtures("secret")
def test_it_is_held_against_this_clock(run, body):
    """Unless a time is given, a request that was kept is too old; a tolerance lets it pass."""
    assert "s ago" in run("verify", body, *flags()).err
    assert run("verify", body, *flags(), "--tolerance", "36500d").code == 0


@pytest.mark.usefixtures("secret")
def test_the_body_from_standard_input(run, monkeypatch):
    """As it comes, byte for byte."""
    for content, code in ((BODY, 0), (BODY + b"\n", 1)):
        stdin = io.TextIOWrapper(io.BytesIO(content))
        monkeypatch.setattr(sys, "stdin", stdin)
        assert run("verify", *flags(), "--at", THEN).code == code


def test_secrets_from_a_file(run, body, tmp_path):
    """Several, one on a line: no argument has them."""
    path = tmp_path / "whsec.txt"
    path.write_text(f"{OTHER}\n{SECRET}\n")
    ended = run("verify", body, *flags(), "--at", THEN, "--secret-file", str(path))
    assert ended.code == 0


@pytest.mark.usefixtures("secret")
def test_the_signature_of_the_body_alone(run, body):
    """By its own header, and together with the others both must hold."""
    ended = run("verify", body, "--header", f"X-Timer-Signature: {PLAIN}")
    assert (ended.code, ended.out) == (0, "Genuine: the body is what was signed.\n")
    wrong = ["--header", f"X-Timer-Signature: {PLAIN[:-1]}0"]
    assert run("verify", body, *flags(), "--at", THEN, *wrong).code == 1
    right = ["--header", f"X-Timer-Signature: {PLAIN}"]
    assert run("verify", body, *flags(), "--at", THEN, *right).code == 0
    assert run("verify", body, *flags(webhook_id="x"), "--at", THEN, *right).code == 1


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize(
    ("variable", "arguments", "told"),
    [
        ("", flags(), "WEBHOOK_SECRETS: is not set"),
        ("hunter2", flags(), 'WEBHOOK_SECRETS: secret number 1 must start with "whsec_"'),
        (f"{SECRET},whsec_hunter2", flags(), "WEBHOOK_SECRETS: secret number 2 must be"),
        (SECRET, [], "--header: must give webhook-signature or x-timer-signature"),
        (SECRET, [*flags(), "--at", "noon"], "--at: must be a time"),
        (SECRET, [*flags(), "--tolerance", "long"], "--tolerance: must be a duration"),
        (SECRET, [*flags(), "--header", "no colon"], "must be 'Name: value'"),
        (SECRET, [*flags(), "--secret-file", "nowhere.txt"], "--secret-file: cannot read"),
    ],
)
def test_wrong_usage(run, monkeypatch, variable, arguments, told):
    """It ends with 2, names what is wrong, and repeats no secret."""
    monkeypatch.setenv("WEBHOOK_SECRETS", variable)
    ended = run("verify", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err
    assert "hunter2" not in ended.err


@pytest.mark.promise("no-secret")
def test_files_that_hold_no_secret(run, body, tmp_path):
    """What stands in them is not repeated."""
    path = tmp_path / "whsec.txt"
    for content in (b"", b"\n", b"hunter2", b"\xff\xfe", (SECRET + "\n").encode() * 101):
        path.write_bytes(content)
        ended = run("verify", body, *flags(), "--secret-file", str(path))
        assert ended.code == 2
        assert ended.err.startswith("duetime: --secret-file: ")
        assert "hunter2" not in ended.err


@pytest.mark.usefixtures("secret")
def test_what_cannot_be_read(run, tmp_path):
    """A body that is not there, or that comes from the same place as the secret."""
    ended = run("verify", str(tmp_path / "none"), *flags())
    assert (ended.code, "cannot be read" in ended.err) == (2, True)
    ended = run("verify", *flags(), "--secret-file", "-")
    assert (ended.code, "standard input is the body already" in ended.err) == (2, True)
