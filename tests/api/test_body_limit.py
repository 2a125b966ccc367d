"""A body that is too large is refused, announced or not, and one that breaks off makes nothing."""

import json
from typing import Any

import pytest

from duetime.stores.memory import MemoryStore
from tests.api.client import KEY, Api, call_app, timer_body
from tests.api.conftest import MakeApi

GOOD = json.dumps(timer_body()).encode()


@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "DELETE"])
async def test_announced_too_large(quick_api: Api, method: str):
    """A body that is announced as too large is not read, and the connection is closed."""
    path = (
        "/timers" if method in {"POST", "GET"} else "/timers/01977420-dc00-7012-9f7e-3d5f520271b1"
    )
    answer = await call_app(
        quick_api.app,
        method,
        path,
        headers=[(b"x-api-key", KEY.encode()), (b"content-length", b"1048577")],
        chunks=(b"never looked at",),
    )
    assert answer.summary == (413, 8, "body: must be at most 1048576 bytes")
    assert answer.headers["connection"] == "close"


async def test_turns_out_too_large(make_api: MakeApi):
    """A body without an announced length is cut off at the limit, chunk by chunk."""
    api = make_api(MemoryStore(), max_body=1024)
    answer = await call_app(
        api.app,
        "POST",
        "/timers",
        headers=[(b"x-api-key", KEY.encode())],
        chunks=(b" " * 1000, b" " * 25, b"never read"),
    )
    assert answer.summary == (413, 8, "body: must be at most 1024 bytes")


async def test_exactly_at_the_limit(make_api: MakeApi):
    """The limit itself is allowed, in one piece or in many."""
    body = GOOD.ljust(1024)
    api = make_api(MemoryStore(), max_body=1024)
    assert (await api.post("/timers", body)).status == 201
    answer = await call_app(
        api.app,
        "POST",
        "/timers",
        headers=[(b"x-api-key", KEY.encode()), (b"content-length", b"1024")],
        chunks=tuple(body[n : n + 100] for n in range(0, 1024, 100)),
    )
    assert answer.status == 201
    assert (await api.post("/timers", body + b" ")).status == 413


async def test_content_length_that_is_no_number(quick_api: Api):
    """A length that is no number is refused, not an error."""
    for length in (b"x", b"-1", b"1e3", b""):
        answer = await call_app(
            quick_api.app,
            "POST",
            "/timers",
            headers=[(b"x-api-key", KEY.encode()), (b"content-length", length)],
        )
        assert answer.status in {400, 413}


@pytest.mark.promise("bad-input")
async def test_client_hangs_up(quick_api: Api):
    """A client that is gone in the middle of its body is answered nothing, and nothing is made."""
    sent: list[Any] = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    messages = [
        {"type": "http.request", "body": GOOD, "more_body": True},
        {"type": "http.disconnect"},
    ]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/timers",
        "raw_path": b"/timers",
        "query_string": b"",
        "headers": [(b"x-api-key", KEY.encode())],
    }
    await quick_api.app(scope, receive, send)
    assert sent == []
    assert (await quick_api.get("/timers")).data["total"] == 0
