"""Verifying a request as a receiver: by the vectors of Standard Webhooks, and against forgers."""

import hmac
import subprocess
import sys

import pytest

from duetime import webhooks
from duetime.delivery.signing import body_signatures, parse_secret, signatures
from duetime.errors import DuetimeError
from duetime.webhooks import (
    MalformedHeader,
    MissingHeader,
    NoMatchingSignature,
    TooNew,
    TooOld,
    VerificationError,
    verify,
    verify_body_signature,
)
from tests.webhook_vector import AT, BODY, HEADERS, ID, OTHER, SECRET, SIGNATURE

pytestmark = pytest.mark.promise("signatures-fit")


def with_headers(**changed: str | None) -> dict[str, str]:
    """The headers of the vector, with some of them changed or left out."""
    given = {name.replace("_", "-"): value for name, value in changed.items()}
    return {name: value for name, value in {**HEADERS, **given}.items() if value is not None}


def test_the_published_vector():
    """The specification's own example is genuine, and tells its id and its time."""
    assert verify(BODY, HEADERS, SECRET, now=AT) == (ID, AT)
    assert verify(BODY.decode(), HEADERS, [SECRET], now=AT) == (ID, AT)


def test_what_is_sent_is_verified():
    """With every secret that is active, whichever of them the receiver has."""
    secrets = [parse_secret(OTHER), parse_secret(SECRET)]
    both = with_headers(webhook_signature=signatures(secrets, ID, AT, BODY))
    for known in (OTHER, SECRET, [SECRET, OTHER], ["whsec_" + "A" * 44, OTHER]):
        assert verify(BODY, both, known, now=AT).id == ID
        plain = {"X-Timer-Signature": body_signatures(secrets, BODY)}
        verify_body_signature(BODY, plain, known)


@pytest.mark.parametrize(
    "body",
    [
        b'{"test":2432232314}',  # decoded and encoded again
        BODY + b"\n",
        b" " + BODY,
        BODY.replace(b"4", b"5", 1),
        b"",
    ],
)
def test_another_body(body: bytes):
    """Not a byte of it may differ."""
    with pytest.raises(NoMatchingSignature):
        verify(body, HEADERS, SECRET, now=AT)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("webhook_id", ID + "x"),
        ("webhook_id", ID[:-1]),
        ("webhook_timestamp", str(AT + 1)),
        ("webhook_timestamp", f"0{AT}"),
        ("webhook_signature", SIGNATURE[:-1]),
        ("webhook_signature", SIGNATURE.replace("g0", "g1")),
        ("webhook_signature", SIGNATURE.removeprefix("v1,")),
        ("webhook_signature", SIGNATURE.replace("v1,", "v1a,")),
        ("webhook_signature", SIGNATURE.replace("v1,", "v2,")),
        ("webhook_signature", "v1,"),
        ("webhook_signature", ","),
        ("webhook_signature", "v1,gänzlich falsch \udcff"),
        ("webhook_signature", "v1, " + SIGNATURE.removeprefix("v1,")),
    ],
)
def test_headers_that_were_altered(name: str, value: str):
    """The signature covers the id and the time, too."""
    with pytest.raises(NoMatchingSignature):
        verify(BODY, with_headers(**{name: value}), SECRET, now=AT)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-signature", "body"])
def test_half_a_character(name: str):
    """Some servers make texts of what comes that no bytes stand for: these are not genuine."""
    body = "\ud800" if name == "body" else BODY
    headers = HEADERS if name == "body" else {**HEADERS, name: "\ud800"}
    with pytest.raises(NoMatchingSignature):
        verify(body, headers, SECRET, now=AT)


def test_an_id_cannot_take_over_the_time():
    """What is signed cannot be split at another dot."""
    moved = with_headers(webhook_id=f"{ID}.{AT}", webhook_timestamp="2")
    with pytest.raises(NoMatchingSignature):
        verify(BODY, moved, SECRET, now=2)


def test_one_signature_of_several_is_enough():
    """Others, also those of later versions of the specification, do no harm."""
    many = f"v1a,AAAA v1,{'A' * 43}= nonsense {SIGNATURE} v1,"
    assert verify(BODY, with_headers(webhook_signature=many), SECRET, now=AT).id == ID


def test_another_secret():
    """Whoever does not know the secret cannot sign."""
    with pytest.raises(NoMatchingSignature):
        verify(BODY, HEADERS, OTHER, now=AT)


@pytest.mark.parametrize(
    ("now", "error"),
    [
        (AT - 301, TooNew),
        (AT - 300, None),
        (AT + 300, None),
        (AT + 301, TooOld),
        (AT + 300.5, TooOld),
    ],
)
def test_the_age(now: float, error: type[Exception] | None):
    """Five minutes in both directions, unless told otherwise."""
    if error is None:
        assert verify(BODY, HEADERS, SECRET, now=now).timestamp == AT
    else:
        with pytest.raises(error):
            verify(BODY, HEADERS, SECRET, now=now)
        assert verify(BODY, HEADERS, SECRET, now=now, tolerance=302).timestamp == AT


def test_the_clock_is_asked():
    """A request that was kept for years is refused where no other time is given."""
    with pytest.raises(TooOld):
        verify(BODY, HEADERS, SECRET)


def test_only_what_is_genuine_is_too_old():
    """So whoever hears of it knows that a clock is wrong, or that it was sent once more."""
    with pytest.raises(NoMatchingSignature):
        verify(BODY + b" ", HEADERS, SECRET, now=AT + 1000)


@pytest.mark.parametrize("name", ["webhook_id", "webhook_timestamp", "webhook_signature"])
@pytest.mark.parametrize("value", [None, "", " "])
def test_a_header_that_is_missing(name: str, value: str | None):
    """Each of the three is needed, and named."""
    with pytest.raises(MissingHeader, match=name.replace("_", "-")):
        verify(BODY, with_headers(**{name: value}), SECRET, now=AT)


@pytest.mark.parametrize(
    "text", ["soon", "1614265330.0", "-1614265330", "+1614265330", "1e9", "9" * 13, "١٦١٤٢٦٥٣٣٠"]
)
def test_a_time_that_is_none(text: str):
    """Nothing but whole seconds is a time."""
    with pytest.raises(MalformedHeader, match="webhook-timestamp"):
        verify(BODY, with_headers(webhook_timestamp=text), SECRET, now=AT)


@pytest.mark.parametrize(
    "headers",
    [
        {name.upper(): value for name, value in HEADERS.items()},
        {name.title(): f" {value} " for name, value in HEADERS.items()},
        list(HEADERS.items()),
        [(name.encode(), value.encode()) for name, value in HEADERS.items()],  # as ASGI has them
        [*HEADERS.items(), ("accept", "a"), ("accept", "b")],
    ],
)
def test_headers_come_in_many_forms(headers):
    """In any case, as a mapping or as pairs, as text or as bytes."""
    assert verify(BODY, headers, SECRET, now=AT).id == ID


@pytest.mark.parametrize("name", list(HEADERS))
def test_a_header_that_is_there_twice(name: str):
    """Somebody before this one may have read the other."""
    with pytest.raises(MalformedHeader, match=name):
        verify(BODY, [*HEADERS.items(), (name.title(), HEADERS[name])], SECRET, now=AT)


def test_the_signature_of_the_body_alone():
    """It is the HMAC-SHA256 of the body in hex, of which one must fit."""
    right = hmac.digest(parse_secret(SECRET), BODY, "sha256").hex()
    wrong = "0" * 64
    for text in (right, right.upper(), f"{wrong},{right}", f" {right} , {wrong}"):
        verify_body_signature(BODY, {"x-timer-signature": text}, SECRET)
    for text in (wrong, right[:-1], right + "0", f"{wrong},{wrong}", ",", "ä"):
        with pytest.raises(NoMatchingSignature):
            verify_body_signature(BODY, {"x-timer-signature": text}, SECRET)
    with pytest.raises(NoMatchingSignature):
        verify_body_signature(BODY + b" ", {"x-timer-signature": right}, SECRET)
    with pytest.raises(MissingHeader, match="x-timer-signature"):
        verify_body_signature(BODY, HEADERS, SECRET)


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize(
    "secrets", [[], "", "hunter2", [SECRET, "whsec_hunter2"], "whsec_" + "hunter2" * 20, "whsec_ä"]
)
def test_secrets_that_are_none(secrets):
    """They are the receiver's own mistake, and not the sender's; none is shown."""
    for check in (verify, verify_body_signature):
        with pytest.raises(ValueError, match="secret") as told:
            check(BODY, HEADERS, secrets)
        assert "hunter2" not in str(told.value)
        assert not isinstance(told.value, DuetimeError)


def test_a_secret_without_the_signs_that_fill_it_up():
    """Some systems leave them out."""
    assert webhooks.decode_secret(OTHER.rstrip("=")) == bytes(range(32))
    assert webhooks.encode_secret(bytes(range(32))) == OTHER


def test_a_body_that_was_decoded_is_no_body():
    """Its signature can be checked only as it arrived."""
    with pytest.raises(TypeError):
        verify({}, HEADERS, SECRET, now=AT)  # type: ignore[arg-type]


def test_every_error_is_one_of_them():
    """A receiver catches one class."""
    errors = (MissingHeader, MalformedHeader, NoMatchingSignature, TooOld, TooNew)
    assert all(issubclass(error, VerificationError) for error in errors)


def test_all_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch):
    """Every signature with every secret, also when one has been found."""
    compared = []
    real = hmac.compare_digest
    monkeypatch.setattr(
        "duetime.webhooks.hmac.compare_digest", lambda *pair: compared.append(pair) or real(*pair)
    )
    three = with_headers(webhook_signature=f"{SIGNATURE} v1,x v1,y")
    assert verify(BODY, three, [SECRET, OTHER], now=AT).id == ID
    assert len(compared) == 3 * 2


def test_it_needs_nothing_of_the_service():
    """A receiver that imports it loads no server, no store and no client."""
    code = (
        "import sys, duetime.webhooks; own = {'duetime', 'duetime.errors', 'duetime.webhooks'};"
        "print([m for m in sys.modules if m.partition('.')[0] in "
        "('msgspec', 'starlette', 'uvicorn', 'uvloop', 'pyreqwest', 'cryptography')"
        "or (m.startswith('duetime') and m not in own)])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.strip() == "[]"
