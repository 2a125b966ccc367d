"""Whatever is sent, the answer is an envelope that names what is wrong, and never a 500."""

import json

import pytest

from tests.api.client import KEY, Api, call_app, http_callback, timer_body

GOOD = json.dumps(timer_body()).encode()


def with_field(name: str, raw: bytes) -> bytes:
    """A good body with one more field, written byte for byte."""
    return GOOD[:-1] + b',"%s":%s}' % (name.encode(), raw)


def with_callback_field(name: str, raw: bytes) -> bytes:
    """A good body with one more field in its callback, written byte for byte."""
    return b'{"delay":"1h","callback":{"type":"http","url":"https://e.com/","%s":%s}}' % (
        name.encode(),
        raw,
    )


NOT_ALLOWED = "has a character that is not allowed here"
REFUSED: list[tuple[bytes, str]] = [
    # Not JSON at all
    (b"", "body: not valid JSON: "),
    (b" ", "body: not valid JSON: "),
    (b"{", "body: not valid JSON: "),
    (b"{'a':1}", "body: not valid JSON: "),
    (GOOD + b"x", "body: not valid JSON: "),
    (GOOD + GOOD, "body: not valid JSON: "),
    (b"delay=1h", "body: not valid JSON: "),
    (b"\x00", "body: not valid JSON: "),
    (b"\xef\xbb\xbf" + GOOD, "body: not valid JSON: "),  # a byte order mark
    (GOOD.decode().encode("utf-16"), "body: not valid UTF-8 at byte 0"),
    (b"\xff\xfe", "body: not valid UTF-8 at byte 0"),
    (with_field("name", b'"\xff"'), "body: not valid UTF-8 at byte "),
    (with_field("name", b'"\xed\xa0\x80"'), "body: not valid UTF-8 at byte "),
    (with_field("metadata", b'"\xc0\xaf"'), "body: not valid UTF-8 at byte "),
    # JSON, but no object
    (b"null", "body: must be an object, not null"),
    (b"[]", "body: must be an object, not an array"),
    (b'"text"', "body: must be an object, not a string"),
    (b"1", "body: must be an object, not an integer"),
    (b"true", "body: must be an object, not true or false"),
    # Values that are no JSON, in parts that are passed on unread
    *(
        (with_field("metadata", raw), "body: not valid JSON: ")
        for raw in (
            b"NaN",
            b"Infinity",
            b"-Infinity",
            b"01",
            b"1.",
            b".5",
            b"+1",
            b"0x10",
            b"[1,]",
            b'{"a":1,}',
            b"{1:2}",
            b"'a'",
            b'"\\x41"',
            b'"\\ud800"',
            b'"\\udc00\\ud800"',
            b'"a\nb"',
            b'"\x00"',
            b'"\x1f"',
            b"/* c */ 1",
            b"undefined",
            b"",
        )
    ),
    # Nested deeply
    (with_field("metadata", b"[" * 64 + b"]" * 64), "body: nested more than 64 levels deep"),
    (with_field("metadata", b'{"a":' * 64 + b"1" + b"}" * 64), "body: nested more than 64 "),
    (with_field("metadata", b"[" * 100_000 + b"]" * 100_000), "body: nested more than 64 "),
    (b"[" * 100_000, "body: nested more than 64 levels deep"),
    (b'{"a":' * 50_000, "body: nested more than 64 levels deep"),
    # Fields
    (with_field("colour", b"1"), "colour: unknown field"),
    (with_field("Delay", b'"1h"'), "Delay: unknown field"),
    (with_field("__proto__", b"{}"), "__proto__: unknown field"),
    (with_field("x" * 100_000, b"1"), "x" * 64 + "...: unknown field"),
    (with_field("a\\nb", b"1"), "a\nb: unknown field"),
    (
        with_field("callback", b'{"type":"%s"}' % (b"x" * 9999)),
        "callback.type: 'xxxxxxxxxxxxxxxxxx",
    ),
    (with_field("id", b'"x"'), "id: unknown field"),
    (with_field("tenant", b'"other"'), "tenant: unknown field"),
    (with_callback_field("colour", b"1"), "callback.colour: unknown field"),
    (with_field("retry_policy", b'{"retries":1}'), "retry_policy.retries: unknown field"),
    # Types
    (with_field("delay", b"1"), "delay: must be a string or null, not an integer"),
    (with_field("execute_at", b"1"), "execute_at: must be a string or null, not an integer"),
    (with_field("execute_at", b"1e30"), "execute_at: must be a string or null, not a number"),
    (with_field("callback", b"null"), "callback: must be an object, not null"),
    (with_field("callback", b"[]"), "callback: must be an object, not an array"),
    (with_field("callback", b'"https://e.com"'), "callback: must be an object, not a string"),
    (with_field("callback", b'{"type":1}'), "callback.type: must be a string"),
    (with_field("callback", b'{"type":null}'), "callback.type: must be a string"),
    (with_field("callback", b'{"type":"smtp"}'), "callback.type: 'smtp' is not one of the known"),
    (with_callback_field("url", b"1"), "callback.url: must be a string, not an integer"),
    (with_callback_field("method", b"1"), "callback.method: must be a string, not an integer"),
    (with_callback_field("timeout", b"5"), "callback.timeout: must be a string, not an integer"),
    (with_callback_field("timeout", b'"x"'), "callback.timeout: must be a duration such as"),
    (with_callback_field("timeout", b'"0s"'), "callback.timeout: must be between 1ms and 10m"),
    (with_callback_field("timeout", b'"11m"'), "callback.timeout: must be between 1ms and 10m"),
    (with_callback_field("headers", b"1"), "callback.headers: must be an object or null, not an"),
    (with_callback_field("headers", b'{"a":1}'), "callback.headers: must be a string, not an"),
    (with_callback_field("headers", b'{"a":["b"]}'), "callback.headers: must be a string, not an"),
    (with_field("timer_id", b"1"), "timer_id: must be a string or null, not an integer"),
    (with_field("group", b"null"), "group: must be a string, not null"),
    (with_field("tags", b'"a"'), "tags: must be an array, not a string"),
    (with_field("tags", b'["a",1]'), "tags[1]: must be a string, not an integer"),
    (with_field("tags", b'["a",""]'), "tags[1]: must have a length >= 1"),
    (with_field("retry_policy", b"3"), "retry_policy: must be an object or null, not an integer"),
    (with_field("retry_policy", b'{"max_attempts":"3"}'), "retry_policy.max_attempts: must be an"),
    (with_field("retry_policy", b'{"max_attempts":1.5}'), "retry_policy.max_attempts: must be an"),
    (with_field("retry_policy", b'{"jitter":"x"}'), "retry_policy.jitter: must be a number"),
    # Ranges
    (with_field("retry_policy", b'{"max_attempts":0}'), "retry_policy.max_attempts: must be >= 1"),
    (with_field("retry_policy", b'{"max_attempts":-1}'), "retry_policy.max_attempts: must be >="),
    (with_field("retry_policy", b'{"max_attempts":1001}'), "retry_policy.max_attempts: must be <="),
    (
        with_field("retry_policy", b'{"max_attempts":%s}' % (b"9" * 400)),
        "retry_policy.max_attempts: must be <= 1000",
    ),
    (
        with_field("retry_policy", b'{"max_attempts":%s}' % (b"9" * 5000)),
        "retry_policy.max_attempts: ",
    ),
    (with_field("retry_policy", b'{"jitter":1.1}'), "retry_policy.jitter: must be <= 1"),
    (with_field("retry_policy", b'{"jitter":1e999}'), "retry_policy.jitter: "),
    (with_field("retry_policy", b'{"backoff_multiplier":0.5}'), "retry_policy.backoff_multiplier:"),
    (with_field("retry_policy", b'{"max_interval":"-1s"}'), "retry_policy.max_interval: must be a"),
    (with_field("retry_policy", b'{"max_duration":"x"}'), "retry_policy.max_duration: must be a"),
    (with_field("retry_policy", b'{"initial_interval":""}'), "retry_policy.initial_interval: must"),
    (with_field("deadline", b'"-1s"'), "deadline: must be a duration such as"),
    (with_field("deadline", b'"999999999999d"'), "deadline: must be at most 100 years"),
    # Texts
    (with_field("name", b'""'), "name: must have a length >= 1"),
    (with_field("name", b'"%s"' % (b"x" * 256)), "name: must have a length <= 255"),
    (with_field("name", b'"%s"' % (b"x" * 500_000)), "name: must have a length <= 255"),
    (with_field("name", b'"a\\u0000b"'), f"name: {NOT_ALLOWED}"),
    (with_field("name", b'"a\\nb"'), f"name: {NOT_ALLOWED}"),
    (with_field("name", b'"a\\n"'), f"name: {NOT_ALLOWED}"),
    (with_field("name", b'"\\u0085"'), f"name: {NOT_ALLOWED}"),
    (with_field("name", b'"\\ud800"'), "body: not valid JSON: "),
    (with_field("timer_id", b'"a\\u0000"'), f"timer_id: {NOT_ALLOWED}"),
    (with_field("timer_id", b'"\\r\\n"'), f"timer_id: {NOT_ALLOWED}"),
    (with_field("timer_id", b'".."'), f"timer_id: {NOT_ALLOWED}"),
    (with_field("correlation_id", b'"a\\r\\nX-Evil: 1"'), f"correlation_id: {NOT_ALLOWED}"),
    (with_field("correlation_id", b'""'), "correlation_id: must have a length >= 1"),
    (with_field("group", b'"a b"'), f"group: {NOT_ALLOWED}"),
    (with_field("group", b'"a\\n"'), f"group: {NOT_ALLOWED}"),
    (with_field("group", b'"../x"'), f"group: {NOT_ALLOWED}"),
    (with_field("group", '"ä"'.encode()), f"group: {NOT_ALLOWED}"),
    (with_field("tags", b'["a\\u0007"]'), f"tags[0]: {NOT_ALLOWED}"),
    (with_field("tags", b'["%s"]' % (b"x" * 129)), "tags[0]: must have a length <= 128"),
    (with_field("tags", json.dumps(["t"] * 33).encode()), "tags: must have a length <= 32"),
    (with_field("execute_at", b'"%s"' % (b"1" * 100)), "execute_at: must have a length <= 64"),
    (with_field("delay", b'"%s"' % (b"1s" * 40)), "delay: must have a length <= 64"),
    # Callbacks
    (with_callback_field("method", b'"BREW"'), "callback.method: must be one of GET, POST, "),
    (with_callback_field("method", b'"post"'), "callback.method: must be one of GET, POST, "),
    (with_callback_field("method", b'"GET\\r\\n"'), "callback.method: must be one of GET, POST, "),
    (
        with_callback_field("headers", b'{"a":"b\\r\\nX-Evil: 1"}'),
        "callback.headers: the value of a must be printable ASCII text",
    ),
    (
        with_callback_field("headers", b'{"a":"b\\u0000"}'),
        "callback.headers: the value of a must be printable ASCII text",
    ),
    (
        with_callback_field("headers", b'{"a\\r\\nX-Evil":"b"}'),
        r"callback.headers: 'a\r\nX-Evil' is not a valid header name",
    ),
    (with_callback_field("headers", b'{"":"b"}'), "callback.headers: '' is not a valid header"),
    (with_callback_field("headers", b'{"a:b":"c"}'), "callback.headers: 'a:b' is not a valid"),
    (with_callback_field("headers", b'{"Host":"x"}'), "callback.headers: Host cannot be set"),
    (
        with_callback_field("headers", b'{"Content-Length":"5"}'),
        "callback.headers: Content-Length cannot be set",
    ),
    (
        with_callback_field("headers", b'{"Webhook-Signature":"v1,x"}'),
        "callback.headers: Webhook-Signature cannot be set",
    ),
    (with_callback_field("headers", b'{"a":"1","A":"2"}'), "callback.headers: A is given twice"),
    (
        with_callback_field("headers", json.dumps({f"h{n}": "" for n in range(65)}).encode()),
        "callback.headers: at most 64 are possible",
    ),
    (
        with_callback_field("headers", json.dumps({"a": "x" * 17_000}).encode()),
        "callback.headers: must be at most 16384 bytes together",
    ),
]


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize(("body", "message"), REFUSED)
async def test_refused(quick_api: Api, body: bytes, message: str):
    """What is wrong is 400, code 2, and the message begins with the field that is."""
    answer = await quick_api.post("/timers", body)
    assert (answer.status, answer.code, answer.data) == (400, 2, None)
    assert answer.message.startswith(message), answer.message
    assert "`" not in answer.message
    assert len(answer.message) < 400
    assert (await quick_api.get("/timers")).data["total"] == 0


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com",
        "http:",
        "http://",
        "http:///x",
        "https://?x",
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "gopher://example.com",
        "http://exa mple.com/",
        "http://example.com:99999/",
        "http://[::1/",
        "http://example.com/\r\nX-Evil: 1",
        "http://example.com/\n",
        "http://\u0000/",
        " http://example.com/",
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_bad_url(quick_api: Api, method: str, url: str):
    """What is no http or https URL is refused in these words, at creation and at update."""
    made = await quick_api.create()
    callback = http_callback(url=url)
    path, body = "/timers", timer_body(callback=callback)
    if method == "PUT":
        path, body = f"/timers/{made['id']}", {"callback": callback}
    answer = await quick_api.call(method, path, body)
    assert answer.summary == (400, 2, "callback.url: must be an http or https URL")


async def test_url_too_long(quick_api: Api):
    """A URL has at most 2048 characters."""
    for length, status in ((2048, 201), (2049, 400)):
        url = "https://example.com/".ljust(length, "x")
        answer = await quick_api.post("/timers", timer_body(callback=http_callback(url=url)))
        assert answer.status == status
    assert answer.message.startswith("callback.url: must ")


@pytest.mark.parametrize(
    "raw",
    [
        b"99999999999999999999999999999",
        b"-0",
        b"-0.0",
        b"1e999",
        b"1E+2",
        b"0.1000000000000000055511151231257827",
        b'{"a":1,"a":2}',
        b'"\\u0000"',
        b'"\\ud83d\\ude00"',
        b'"\\/\\b\\f\\n\\r\\t"',
        '"\U0001f600 \u2028 \ufeff \ufffe"'.encode(),
        b'"<script>alert(1)</script>"',
        b'"\'; DROP TABLE timers; --"',
        b'{"__proto__":{"x":1},"":0,"\\u0000":1}',
        b"[" * 62 + b"]" * 62,
        b'"%s"' % (b"\\\\" * 1000),
        b'"[[[[' + b"[{" * 200 + b'"',
        b'  { "spaced" : [ 1 , 2 ] }  ',
        b"[" + b"1," * 10_000 + b"1]",
        b"null",
    ],
)
@pytest.mark.parametrize("field", ["metadata", "payload"])
async def test_users_json_is_kept(api: Api, field: str, raw: bytes):
    """The user's own JSON is kept byte for byte, however odd, and the answer stays valid JSON."""
    write = with_field if field == "metadata" else with_callback_field
    made = await api.post("/timers", write(field, raw))
    assert made.status == 201, made
    answer = await api.get(f"/timers/{made.data['id']}")
    assert raw.strip() in answer.body
    assert json.loads(answer.body)
    [timer] = await api.store.get([made.data["id"]])
    stored = timer.spec.metadata if field == "metadata" else timer.spec.callback.payload
    assert bytes(stored) == raw.strip()


async def test_twice_the_same_field(quick_api: Api):
    """Of a field that is given twice the last counts, as in most readers of JSON."""
    answer = await quick_api.post("/timers", GOOD[:-1] + b',"delay":"2h"}')
    assert answer.data["execute_at"] == "2025-10-26T12:30:00Z"
    answer = await quick_api.post("/timers", with_callback_field("type", b'"nats"'))
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith("callback.type: ")


@pytest.mark.parametrize(
    "text", ["'; DROP TABLE timers; --", "\u202e", "a\u00a0b", "\U0001d4b3", "ß" * 128]
)
async def test_odd_texts(api: Api, text: str):
    """Printable text of any script is taken and given back as it is."""
    made = await api.create(name=text, tags=[text], timer_id=text, correlation_id=text)
    shown = await api.shown(made["id"])
    assert [shown["name"], *shown["tags"], shown["timer_id"], shown["correlation_id"]] == [text] * 4


@pytest.mark.parametrize("header", ["If-Match", "Idempotency-Key", "X-Correlation-ID"])
async def test_header_that_is_no_text(quick_api: Api, header: str):
    """A header that is no UTF-8 is refused, by its name."""
    made = await quick_api.create()
    method, path, body = "POST", "/timers", GOOD
    if header == "If-Match":
        method, path, body = "DELETE", f"/timers/{made['id']}", b""
    answer = await call_app(
        quick_api.app,
        method,
        path,
        headers=[(b"x-api-key", KEY.encode()), (header.lower().encode(), b"\xff")],
        chunks=(body,),
    )
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.lower() == f"{header.lower()}: not valid utf-8"
    assert answer.message.startswith(header)


async def test_unexpected_error(quick_api: Api, monkeypatch, caplog: pytest.LogCaptureFixture):
    """A bug is 500, code 1; the log has the traceback, and the answer has not."""

    async def broken(*_args):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(quick_api.store, "search", broken)
    answer = await quick_api.get("/timers")
    assert answer.summary == (500, 1, "unexpected error; the server's log tells more")
    assert "secret detail" in caplog.text
