"""What is wrong with a callback is said when it is created, by the name of the field."""

from typing import Any

import pytest
from msgspec import Raw

from duetime.delivery.http import HttpSender
from duetime.timer import HttpCallback, NatsCallback

URL = "https://receiver.example/hook"
NOT_A_URL = "callback.url: must be an http or https URL"
USERINFO = (
    "callback.url: must not contain a user name or password;"
    " send them in callback.headers, as Authorization"
)
OWNED = [
    *("Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "TE", "Trailer"),
    *("Keep-Alive", "Expect", "Proxy-Authorization", "proxy-connection"),
    *("webhook-id", "Webhook-Signature", "WEBHOOK-TIMESTAMP", "webhook-anything"),
    *("X-Timer-Signature", "x-timer-signature"),
]


def problem(sender: HttpSender, url: str = URL, **callback: Any) -> str | None:
    return sender.problem(HttpCallback(url=url, **callback))


@pytest.mark.parametrize(
    "url",
    [
        *("http://receiver.example", "HTTPS://Receiver.Example:8443/a?b=c#d", "http://10.0.0.1/"),
        *("http://[::1]:8080/", "https://bücher.example/ü", "http://localhost./", "http://a_b/"),
    ],
)
async def test_good_url(sender: HttpSender, url: str):
    """A URL with http or https and a host is accepted, whether or not it may be called later."""
    assert problem(sender, url) is None


@pytest.mark.parametrize(
    "url",
    [
        *("", "receiver.example/hook", "/hook", "ftp://receiver.example/", "file:///etc/passwd"),
        *("http:receiver.example", "http://", "http:///hook", "https://?q", "javascript:alert(1)"),
        *("http://receiver.example:0/", "http://receiver.example:65536/", "http://a b/"),
        *("http://receiver.example/\nX: y", " http://receiver.example", "http://[fe80::1%25eth0]/"),
        *("http://a`b/", "http://a(b/", "http://1.2.3.4.5/", f"http://{'a' * 254}/"),
        *("gopher://a.example:70/_x", "unix:///run/x.sock", "http+unix://%2Frun%2Fx.sock/"),
        *("ws://a.example/", "data:,x", "dict://a.example:11211/", "ldap://a.example/", "blob:x"),
        *("//a.example/", "\\\\a.example\\", "http:\\\\a.example/", "http:/a.example", "/\\a"),
        *("http://a.example:-1/", "http://a.example:8x/", "http://a.example:٨٠/", "http://:80/"),
        *(
            "http://a.example/\0",
            "http://a\0.example/",
            "http://a\r.example/",
            "http://a.example\t/",
        ),
        *("http://a%00.example/", "http://a%0d%0aX:y/", "http://a%2f.example/", "http://a%40b/"),
        *("http://127.0.0.1../", "http://a..example/", "http://.example/", "http://./"),
        *("http://[::1%lo]/", "http://[::ffff:127.1]/", "http://256.0.0.1/", "http://4294967296/"),
        *("http://١٢٧.0.0.1/", "http://xn--/", "http://[v1.a]/", "http://[127.0.0.1]/"),
    ],
)
async def test_bad_url(sender: HttpSender, url: str):
    """Anything else is refused in the same words."""
    assert problem(sender, url) == NOT_A_URL


async def test_longest_url(sender: HttpSender):
    """A URL has at most 2,048 characters."""
    assert problem(sender, URL.ljust(2048, "x")) is None
    assert problem(sender, URL.ljust(2049, "x")) == "callback.url: must be at most 2048 characters"


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize(
    "userinfo", ["me:secret", "me", ":secret", "", ":", "me:secret@a.example:80", "8.8.8.8:80"]
)
async def test_userinfo(sender: HttpSender, userinfo: str):
    """Credentials do not belong into the URL; the sentence says where they do, without them."""
    assert problem(sender, f"https://{userinfo}@receiver.example/") == USERINFO


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
async def test_good_method(sender: HttpSender, method: str):
    """The seven usual methods are accepted."""
    assert problem(sender, method=method) is None


@pytest.mark.parametrize("method", ["", "post", "CONNECT", "TRACE", "GET /"])
async def test_bad_method(sender: HttpSender, method: str):
    """Any other is refused, with the list."""
    assert problem(sender, method=method) == (
        "callback.method: must be one of GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS"
    )


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_payload_without_a_body_to_carry_it(sender: HttpSender, method: str):
    """A payload that the method cannot carry is refused rather than dropped."""
    assert problem(sender, method=method, payload=Raw(b"{}")) == (
        f"callback.payload: a {method} request has no body;"
        " use POST, or put the data into callback.url"
    )


@pytest.mark.parametrize("name", OWNED)
async def test_owned_header(sender: HttpSender, name: str):
    """Headers that Duetime or HTTP itself owns cannot be set, in any spelling."""
    assert problem(sender, headers={name: "x"}) == (
        f"callback.headers: {name} cannot be set, as Duetime or HTTP itself sets it"
    )


@pytest.mark.promise("no-secret")
@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"": "x"}, "'' is not a valid header name"),
        ({"a b": "x"}, "'a b' is not a valid header name"),
        ({"a\r\nb": "x"}, "'a\\r\\nb' is not a valid header name"),
        ({"ü": "x"}, "'ü' is not a valid header name"),
        ({"X-A": "s3cret\r\nX-B: c"}, "the value of X-A must be printable ASCII text"),
        ({"X-A": "s3cret\0"}, "the value of X-A must be printable ASCII text"),
        ({"X-A": "s3cret ü"}, "the value of X-A must be printable ASCII text"),
        ({"X-A": "1", "x-a": "2"}, "x-a is given twice"),
        ({f"X-{n}": "x" for n in range(65)}, "at most 64 are possible"),
        ({"X-A": "x" * 16_384}, "must be at most 16384 bytes together"),
    ],
)
async def test_bad_headers(sender: HttpSender, headers: dict[str, str], words: str):
    """Headers that cannot be sent are refused by name; their values are never shown."""
    assert problem(sender, headers=headers) == f"callback.headers: {words}"


async def test_good_headers(sender: HttpSender):
    """What can be sent is accepted."""
    headers = {f"X-{n}": "x\tand y" for n in range(63)} | {"Authorization": "Bearer ~x=="}
    assert problem(sender, headers=headers) is None


@pytest.mark.parametrize("millis", [-1, 0, 600_001])
async def test_bad_timeout(sender: HttpSender, millis: int):
    """A timeout lies between a millisecond and ten minutes."""
    assert problem(sender, timeout=millis) == "callback.timeout: must be between 1ms and 10m"


@pytest.mark.parametrize("millis", [1, 30_000, 600_000])
async def test_good_timeout(sender: HttpSender, millis: int):
    """The shortest and the longest timeout are accepted."""
    assert problem(sender, timeout=millis) is None


async def test_nats(sender: HttpSender):
    """This sender alone does not know NATS, and says so."""
    callback = NatsCallback(topic="orders")
    problem = sender.problem(callback)
    assert problem is not None
    assert problem.startswith("callback.type: nats is not configured on this server; ")
    assert sender.target(callback) == "nats"


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://Receiver.Example/a", "receiver.example:443"),
        ("http://receiver.example:8080/b?c", "receiver.example:8080"),
        ("http://receiver.example.:80/", "receiver.example:80"),
        ("http://2130706433/", "127.0.0.1:80"),
        ("http://[0:0::1]/", "[::1]:80"),
        ("https://bücher.example", "xn--bcher-kva.example:443"),
        ("not a URL", "not a URL"),
        ("http://receiver.example:0/", "http://receiver.example:0/"),
    ],
)
async def test_target(sender: HttpSender, url: str, target: str):
    """Limits are counted against host and port, however it is spelled."""
    assert sender.target(HttpCallback(url=url)) == target
