"""What a callback could smuggle in is refused wherever a callback, or a part of one, comes in."""

import pytest

from tests.api.client import Answer, Api, http_callback, timer_body

NOT_A_URL = "callback.url: must be an http or https URL"
OWNED = "cannot be set, as Duetime or HTTP itself sets it"
NOT_PRINTABLE = "the value of X-A must be printable ASCII text"

URLS = {
    "file": ("file:///etc/passwd", NOT_A_URL),
    "gopher": ("gopher://inside:70/_x", NOT_A_URL),
    "socket": ("http+unix://%2Frun%2Fdocker.sock/", NOT_A_URL),
    "no scheme": ("//inside/", NOT_A_URL),
    "backslashes": ("http:\\\\inside\\", NOT_A_URL),
    "second request": ("http://a.example/ HTTP/1.1\r\nHost: inside", NOT_A_URL),
    "NUL": ("http://a.example/\0", NOT_A_URL),
    "zone": ("http://[fe80::1%25eth0]/", NOT_A_URL),
    "port": ("http://a.example:0/", NOT_A_URL),
    "no name": ("http://127.0.0.1../", NOT_A_URL),
    "user": ("https://a.example@inside/", "callback.url: must not contain a user name or password"),
    "long": ("http://a.example/".ljust(2049, "x"), "callback.url: must have a length <= 2048"),
}
HEADERS = {
    "host": ({"Host": "inside"}, f"Host {OWNED}"),
    "length": ({"content-length": "0"}, f"content-length {OWNED}"),
    "chunks": ({"Transfer-Encoding": "chunked"}, f"Transfer-Encoding {OWNED}"),
    "proxy": ({"Proxy-Authorization": "x"}, f"Proxy-Authorization {OWNED}"),
    "signature": ({"Webhook-Signature": "v1,x"}, f"Webhook-Signature {OWNED}"),
    "line": ({"X-A": "1\r\nX-B: 2"}, NOT_PRINTABLE),
    "lone return": ({"X-A": "1\rX-B: 2"}, NOT_PRINTABLE),
    "NUL": ({"X-A": "\0"}, NOT_PRINTABLE),
    "name": ({"X-A: 1\r\nX-B": "2"}, r"'X-A: 1\r\nX-B' is not a valid header name"),
    "space": ({"Host ": "inside"}, "'Host ' is not a valid header name"),
}


async def enter(api: Api, way: str, callback: dict) -> Answer:
    """Bring a callback in, in one of the ways that there are."""
    if way == "create":
        return await api.post("/timers", timer_body(callback=callback))
    if way == "by key":
        return await api.put("/groups/default/timers/k", timer_body(callback=callback))
    if way == "update":
        made = await api.create()
        return await api.put(f"/timers/{made['id']}", {"callback": callback})
    body = {"action": "update", "filter": {"all": True}, "update": {"callback": callback}}
    return await api.post("/timers/actions", body)


@pytest.mark.promise("bad-input", "permitted-addresses")
@pytest.mark.parametrize("way", ["create", "by key", "update", "bulk update"])
@pytest.mark.parametrize("fault", [*URLS, *(f"header: {name}" for name in HEADERS)])
async def test_refused_at_every_entrance(quick_api: Api, way: str, fault: str):
    """It is 400 in the same words, behind the name of the field."""
    if fault in URLS:
        url, message = URLS[fault]
        callback = http_callback(url=url)
    else:
        headers, said = HEADERS[fault.removeprefix("header: ")]
        callback, message = http_callback(headers=headers), f"callback.headers: {said}"
    answer = await enter(quick_api, way, callback)
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.removeprefix("update.").startswith(message)


@pytest.mark.promise("bad-input", "permitted-addresses")
async def test_refused_in_a_batch(quick_api: Api):
    """Each timer of a batch is looked at by itself."""
    callbacks = [http_callback(url=url) for url, _ in URLS.values()]
    callbacks += [http_callback(headers=headers) for headers, _ in HEADERS.values()]
    batch = {"timers": [timer_body(callback=callback) for callback in callbacks]}
    answer = await quick_api.post("/timers/batch", batch)
    assert (answer.data["created"], answer.data["failed"]) == (0, len(callbacks))
    messages = [message for _, message in URLS.values()]
    messages += [f"callback.headers: {said}" for _, said in HEADERS.values()]
    for item, message in zip(answer.data["timers"], messages, strict=True):
        assert item["message"].startswith(message)


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize("fault", HEADERS)
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_refused_in_the_headers_of_a_group(quick_api: Api, method: str, fault: str):
    """What goes with every callback of a group is held to the same."""
    headers, said = HEADERS[fault]
    await quick_api.post("/groups", {"name": "there"})
    path, body = "/groups", {"name": "a", "headers": headers}
    if method == "PUT":
        path, body = "/groups/there", {"headers": headers}
    answer = await quick_api.call(method, path, body)
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith(f"headers: {said}")
