"""From what users send to the model, and errors that name the field."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from duetime.clock import LATEST, to_rfc3339
from duetime.decoding import DEEPEST, check_bytes, decode, sentence
from duetime.drafts import fingerprint, to_callback, to_retry_policy
from duetime.errors import InvalidRequest
from duetime.requests import (
    CreateTimer,
    HttpCallbackBody,
    NatsCallbackBody,
    RetryPolicyBody,
    check_key,
    check_text,
    to_millis,
    to_time,
)
from duetime.retry import SINGLE_ATTEMPT, RetryPolicy
from duetime.tenancy.group import NO_DEFAULTS
from duetime.timer import HttpCallback, NatsCallback

BODY = b'{"delay":"1h","timer_id":"x","callback":{"type":"http","url":"https://e.com/"%s}%s}'


def create(callback: bytes = b"", rest: bytes = b"") -> CreateTimer:
    return decode(BODY % (callback, rest), CreateTimer)


@pytest.mark.parametrize(
    ("text", "timezone", "expected"),
    [
        ("2030-01-01T09:00:00Z", None, "2030-01-01T09:00:00Z"),
        ("2030-01-01t09:00:00z", None, "2030-01-01T09:00:00Z"),
        ("2030-01-01 09:00:00Z", None, "2030-01-01T09:00:00Z"),
        ("2030-01-01T09:00:00.25Z", None, "2030-01-01T09:00:00.250Z"),
        ("2030-01-01T09:00:00.123456789Z", None, "2030-01-01T09:00:00.124Z"),
        ("2030-01-01T09:00:00+05:30", None, "2030-01-01T03:30:00Z"),
        ("2030-01-01T09:00:00-08:00", None, "2030-01-01T17:00:00Z"),
        ("2030-07-01T09:00:00", "Europe/Berlin", "2030-07-01T07:00:00Z"),
        ("2030-01-01T09:00:00", "America/New_York", "2030-01-01T14:00:00Z"),
        ("2030-01-01T09:00:00", "UTC", "2030-01-01T09:00:00Z"),
        ("9999-12-31T23:59:59.999Z", None, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_time(text: str, timezone: str | None, expected: str):
    """Times are read as in RFC 3339, or in their time zone, and rounded up to milliseconds."""
    assert to_rfc3339(to_time(text, "at", timezone)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2030-01-01",
        "2030-01-01T09:00Z",
        "2030-01-01T09:00:00.Z",
        "2030-01-01T09:00:00.1234567890Z",
        "20300101T090000Z",
        "2030-W01-1T09:00:00Z",
        "2030-01-01T09:00:00+0530",
        "2030-01-01T09:00:00Z\n",
        " 2030-01-01T09:00:00Z",
        "2030-02-30T09:00:00Z",
        "2030-01-01T24:00:01Z",
        "2030-01-01T09:00:00+24:00",
        "2030-01-01T09:00:00+25:99",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59.9999Z",
        "9999-12-31T23:59:59-00:01",
        "\u0662030-01-01T09:00:00Z",
    ],
)
def test_not_a_time(text: str):
    """What is no time, or one that cannot be written, is refused by the name of its field."""
    with pytest.raises(InvalidRequest, match=r"^at: "):
        to_time(text, "at")


@pytest.mark.promise("never-early")
@given(st.datetimes(timezones=st.just(UTC)))
def test_any_time(at: datetime):
    """Any time is read to the millisecond, never earlier than it was."""
    try:
        millis = to_time(at.isoformat(timespec="microseconds"), "at")
    except InvalidRequest:
        assert at.isoformat() > "9999-12-31T23:59:59.999"
    else:
        micros = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        assert 0 <= millis * 1000 - micros < 1000
        assert millis <= LATEST


@pytest.mark.promise("bad-input")
@given(st.text(max_size=40), st.text(max_size=40) | st.none())
def test_any_text_as_time(text: str, timezone: str | None):
    """Any text, in any zone, is a time or an InvalidRequest."""
    try:
        assert isinstance(to_time(text, "at", timezone), int)
    except InvalidRequest as error:
        assert str(error).startswith(("at: ", "timezone: "))  # noqa: PT017 - both ways are right


def test_duration_names_its_field():
    """What is wrong with a duration is told with its field."""
    with pytest.raises(InvalidRequest, match=r"^deadline: must be a duration such as"):
        to_millis("x", "deadline")


def test_http_callback():
    """Headers and payload are the user's; what was not said is the default."""
    body = HttpCallbackBody(url="https://e.com/", payload=Raw(b"[1]"), timeout="2s")
    assert to_callback(body, NO_DEFAULTS) == HttpCallback(
        url="https://e.com/", payload=Raw(b"[1]"), timeout=2000
    )
    plain = to_callback(HttpCallbackBody(url="https://e.com/"), NO_DEFAULTS)
    assert (plain.method, plain.headers, plain.payload, plain.timeout) == (
        "POST",
        {},
        UNSET,
        30_000,
    )


def test_nats_callback():
    """A NATS callback keeps its topic, key, headers and payload."""
    body = NatsCallbackBody(topic="t", key="k", headers={"a": "b"}, payload=Raw(b"1"))
    expected = NatsCallback(topic="t", key="k", headers={"a": "b"}, payload=Raw(b"1"))
    assert to_callback(body, NO_DEFAULTS) == expected


def test_payload_does_not_hold_its_request():
    """A payload is copied out of the request, which could be large."""
    request = BODY % (b',"payload":[1,2]', b',"metadata":"%s"' % (b"x" * 100_000))
    callback = to_callback(decode(request, CreateTimer).callback, NO_DEFAULTS)
    assert bytes(callback.payload) == b"[1,2]"
    assert len(memoryview(callback.payload)) == 5


def test_retry_policy():
    """A policy is read with its durations; none at all is a single attempt."""
    assert to_retry_policy(RetryPolicyBody()) == SINGLE_ATTEMPT
    body = RetryPolicyBody(max_attempts=3, initial_interval="2s", max_duration="1h", jitter=0)
    expected = RetryPolicy(max_attempts=3, initial_interval=2000, max_duration=3_600_000, jitter=0)
    assert to_retry_policy(body) == expected


@pytest.mark.parametrize(("text", "good"), [("a", 1), ("x" * 255, 1), ("", 0), ("x" * 256, 0)])
def test_check_text_length(text: str, good: int):
    """Texts from headers and paths have a length from 1 to 255."""
    if good:
        check_text(text, "f")
    else:
        with pytest.raises(InvalidRequest, match=r"^f: must have a length from 1 to 255$"):
            check_text(text, "f")


@given(st.text(min_size=1, max_size=20) | st.sampled_from([".", "..", "...", "\n", "a\n"]))
def test_headers_and_bodies_agree(text: str):
    """A key is good in a header or a path exactly if it is good in a body."""
    try:
        decode(
            msgspec.json.encode({"callback": {"type": "http", "url": ""}, "timer_id": text}),
            CreateTimer,
        )
        in_body = True
    except InvalidRequest:
        in_body = False
    try:
        check_key(text, "timer_id")
        in_header = True
    except InvalidRequest:
        in_header = False
    assert in_body == in_header


# Fingerprints


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (create(b',"payload":{"a":1,"b":2}'), create(b',"payload":{ "b" : 2, "a" : 1 }')),
        (create(), create(rest=b',"correlation_id":"c"')),
        (create(), create(rest=b',"group":"default"')),
        (create(), create(b',"method":"POST"')),
        (create(b',"payload":1e999'), create(b',"payload":1e999', b',"correlation_id":"c"')),
    ],
)
def test_same_fingerprint(one: CreateTimer, other: CreateTimer):
    """What says the same is known again."""
    assert fingerprint(one) == fingerprint(other)


def test_other_fingerprint():
    """What says something else is told apart."""
    bodies = [
        create(),
        create(b',"payload":null'),
        create(b',"payload":{}'),
        create(b',"payload":1'),
        create(b',"payload":"1"'),
        create(b',"payload":[1,2]'),
        create(b',"payload":[2,1]'),
        create(b',"payload":1e999'),
        create(b',"payload":1e998'),
        create(b',"method":"PUT"'),
        create(rest=b',"metadata":1'),
        create(rest=b',"name":"n"'),
        create(rest=b',"tags":["a"]'),
        create(rest=b',"group":"g"'),
    ]
    assert len({fingerprint(body) for body in bodies}) == len(bodies)


def test_fingerprint_never_changes():
    """Stored timers are known by it, also after an upgrade."""
    body = create(b',"payload":{"b":[1,2.5,"\xc3\xa4"],"a":null}', b',"name":"n","tags":["t"]')
    assert fingerprint(body) == "5561d8f7648452d6bbe212f8a66ec669"


# Decoding


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Object missing required field `url` - at `$.callback`", "callback.url: required"),
        ("Object missing required field `callback`", "callback: required"),
        ("Object contains unknown field `x` - at `$.callback`", "callback.x: unknown field"),
        ("Object contains unknown field `x`", "x: unknown field"),
        ("Expected `str`, got `int` - at `$.name`", "name: must be a string, not an integer"),
        (
            "Expected `str | null`, got `array` - at `$.name`",
            "name: must be a string or null, not an array",
        ),
        ("Expected `object`, got `bool`", "body: must be an object, not true or false"),
        ("Expected `str` - at `$.callback.type`", "callback.type: must be a string"),
        ("Expected `str`, got `int` - at `$.tags[3]`", "tags[3]: must be a string, not an integer"),
        (
            "Expected `str`, got `int` - at `$.callback.headers[...]`",
            "callback.headers: must be a string, not an integer",
        ),
        ("Expected `int` >= 1 - at `$.limit`", "limit: must be >= 1"),
        ("Expected `str` of length >= 1 - at `$.name`", "name: must have a length >= 1"),
        (
            "Expected `str` matching regex 'x' - at `$.name`",
            "name: has a character that is not allowed here",
        ),
        ("Invalid value 'x' - at `$.type`", "type: 'x' is not one of the known values"),
        ("Invalid enum value 'x' - at `$.status`", "status: 'x' is not one of the known values"),
    ],
)
def test_sentence(said: str, told: str):
    """The library's words become a sentence that begins with the field."""
    assert sentence(said) == told


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_depth(opening: bytes):
    """Nesting has a limit, and brackets in texts do not count."""
    closing = b"]" if opening == b"[" else b"}"
    check_bytes(opening * DEEPEST + b"1" + closing * DEEPEST)
    with pytest.raises(InvalidRequest, match=r"^body: nested more than 64 levels deep$"):
        check_bytes(opening * (DEEPEST + 1) + b"1" + closing * (DEEPEST + 1))
    check_bytes(b'"' + b"[{" * 500 + b'\\"' + b"[" * 500 + b'"')
    check_bytes(b"[" + b"[]," * 500 + b"[]]")


@pytest.mark.promise("bad-input")
@given(st.binary(max_size=60))
def test_any_bytes(body: bytes):
    """Any bytes are a request or an InvalidRequest."""
    try:
        check_bytes(body)
        decode(body, CreateTimer)
    except InvalidRequest as error:
        assert ": " in str(error)  # noqa: PT017 - both ways are right
