"""What a receiver that is followed asks for in its answer, and what cannot be understood."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from duetime.clock import LATEST, to_rfc3339
from duetime.delivery import following
from duetime.delivery.answers import Answers
from duetime.delivery.following import DONE, FURTHEST, NOT_DONE, SOONEST, TOO_FAR, Wish, read
from duetime.delivery.http import HttpSender
from duetime.delivery.problems import problem_of
from duetime.timer import HttpCallback, Kind, Outcome
from tests.delivery.conftest import make_timer, mine
from tests.delivery.receiver import Receiver, Request
from tests.delivery.test_excerpts import with_length

NOW = 1_750_000_000_000  # 2025-06-15T15:06:40Z
MINUTE = 60_000
NOT_OK = {"ok": False}


@pytest.mark.parametrize(
    ("asked", "at"),
    [
        ({"delay": "15m"}, NOW + 15 * MINUTE),
        ({"delay": "PT15M"}, NOW + 15 * MINUTE),
        ({"delay": "0"}, NOW + SOONEST),
        ({"delay": "999ms"}, NOW + SOONEST),
        ({"delay": "1001ms"}, NOW + 1001),
        ({"next_execute_at": "2025-06-15T15:16:40Z"}, NOW + 10 * MINUTE),
        ({"next_execute_at": "2025-06-15T17:16:40.250+02:00"}, NOW + 10 * MINUTE + 250),
        ({"next_execute_at": "2025-06-15T15:06:40Z"}, NOW + SOONEST),
        ({"next_execute_at": "1999-01-01T00:00:00Z"}, NOW + SOONEST),
        ({"next_execute_at": to_rfc3339(NOW + FURTHEST)}, NOW + FURTHEST),
        ({"delay": "366d"}, NOW + FURTHEST),
        ({"delay": "1m", "next_execute_at": None, "reason": "busy"}, NOW + MINUTE),
    ],
)
def test_again(asked: dict[str, Any], at: int):
    """It is called again then, but never sooner than a second from now."""
    assert read(json.dumps(NOT_OK | asked).encode(), NOW) == Wish(again_at=at)


@pytest.mark.parametrize(
    "asked", [{"delay": "367d"}, {"next_execute_at": to_rfc3339(NOW + FURTHEST + 1)}]
)
def test_too_far(asked: dict[str, Any]):
    """Further than a year ahead is a failure that no repeat would mend."""
    assert read(json.dumps(NOT_OK | asked).encode(), NOW) == TOO_FAR
    assert not TOO_FAR.retryable
    assert read(json.dumps(NOT_OK | {"delay": "2d"}).encode(), LATEST - 1) == TOO_FAR


@pytest.mark.parametrize("more", [{}, {"delay": None}, {"why": [1]}, {"next_execute_at": None}])
def test_not_done(more: dict[str, Any]):
    """That alone is a failed attempt, which the retry policy decides about."""
    assert read(json.dumps(NOT_OK | more).encode(), NOW) == NOT_DONE
    assert NOT_DONE.retryable


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"OK",
        b"null",
        b"false",
        b"[false]",
        b'"ok"',
        b"{}",
        b'{"ok": true}',
        b'{"ok": true, "delay": "1m"}',
        b'{"delay": "1m"}',
        b'{"ok": 0, "delay": "1m"}',
        b'{"ok": "false", "delay": "1m"}',
        b'{"ok": null, "delay": "1m"}',
        b'{"OK": false}',
        b'{"ok": false',
        b'{"ok": false} and more',
        b"\xff\xfe",
        b'{"ok": false, "deep": ' + b"[" * 50_000,
        b"<html>",
    ],
)
def test_anything_else_is_success(body: bytes):
    """What does not say plainly that it is not done, says that it is."""
    assert read(body, NOW) == DONE


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (b'"delay": "s3cret"', "delay in the answer: must be a duration such as"),
        (b'"delay": 15', "delay in the answer: must be a duration such as"),
        (b'"delay": ""', "delay in the answer: must be a duration such as"),
        (b'"delay": "-5m"', "delay in the answer: must be a duration such as"),
        (b'"delay": 1e999', "delay in the answer: must be a duration such as"),
        (b'"delay": {"s3cret": 1}', "delay in the answer: must be a duration such as"),
        (b'"delay": "\xff"', "delay in the answer: must be a duration such as"),
        (b'"delay": "200y"', "delay in the answer: must be a duration such as"),
        (b'"delay": "40000d"', "delay in the answer: must be at most 100 years"),
        (b'"next_execute_at": "s3cret"', "next_execute_at in the answer: must be a time such as"),
        (b'"next_execute_at": 1750000000', "next_execute_at in the answer: must be a time such as"),
        (b'"next_execute_at": false', "next_execute_at in the answer: must be a time such as"),
        (b'"next_execute_at": "2025-06-16T00:00:00"', "next_execute_at in the answer: needs an"),
        (b'"next_execute_at": "2025-02-30T00:00:00Z"', "next_execute_at in the answer: day is"),
        (
            b'"next_execute_at": "2025-06-16T00:00:00Z", "delay": "1m"',
            "next_execute_at in the answer: cannot be given together with delay",
        ),
    ],
)
def test_what_cannot_be_read(asked: bytes, error: str):
    """A wish that cannot be understood is a failed attempt; it names the field, and quotes none."""
    wish = read(b'{"ok": false, ' + asked + b"}", NOW)
    assert wish.again_at is None
    assert wish.retryable
    assert (wish.error or "").startswith(f"follow_response: {error}")
    assert "s3cret" not in (wish.error or "")


@pytest.mark.parametrize("field", ["ok", "delay", "next_execute_at", "other"])
def test_numbers_are_not_read(field: str, monkeypatch: pytest.MonkeyPatch):
    """A long list of floats would take half a second, in the loop that serves all."""
    floats = []
    looked_at = msgspec.json.Decoder(following._Body, float_hook=floats.append).decode
    monkeypatch.setattr(following, "_decode", looked_at)
    texts = msgspec.json.Decoder(str | None, float_hook=floats.append).decode
    monkeypatch.setattr(following, "_decode_text", texts)
    read(json.dumps(NOT_OK | {field: [1e300] * 3}).encode(), NOW)
    assert floats == []


@given(st.binary(max_size=200) | st.text(max_size=50).map(lambda text: text.encode()))
def test_nothing_breaks_it(body: bytes):
    """Whatever comes, there is an answer to it, and it is within the limits."""
    for written in (body, b'{"ok":false,"delay":' + body + b"}", b'{"ok":false,"x":' + body):
        wish = read(written, NOW)
        assert wish.again_at is None or NOW + SOONEST <= wish.again_at <= NOW + FURTHEST


async def send(
    sender: HttpSender, receiver: Receiver, answer: bytes, *, keep: int = 0, by: int = 9999, **more
) -> Outcome:
    url = receiver.url(f"/say?by={by}&hex={answer.hex()}")
    callback = {"timeout": 5000, "follow_response": True, **more}
    return await sender.send(make_timer(url, response_bytes=keep, **callback), mine)


@pytest.mark.parametrize("by", [1, 7, 10_000])
@pytest.mark.parametrize("keep", [0, 5, 1000])
async def test_by_a_real_answer(sender: HttpSender, receiver: Receiver, by: int, keep: int):
    """The body is read whole, however it comes, and no more of it is kept than was asked for."""
    body = b'{"ok": false, "delay": "1h"}'
    outcome = await send(sender, receiver, with_length(body), keep=keep, by=by)
    assert (outcome.kind, outcome.status_code, outcome.error) == (Kind.OK, 200, None)
    assert outcome.again_at is not None
    assert outcome.response == (body[:keep].decode() if keep else None)
    done = await send(sender, receiver, with_length(b'{"ok": true}'), keep=keep, by=by)
    assert (done.kind, done.again_at) == (Kind.OK, None)
    assert receiver.connections == 1


async def test_not_done_by_a_real_answer(sender: HttpSender, receiver: Receiver):
    """It is a failed attempt that may be repeated, with the status that came."""
    outcome = await send(sender, receiver, with_length(b'{"ok": false}', 202), keep=4)
    assert (outcome.kind, outcome.status_code, outcome.retryable) == (Kind.HTTP, 202, True)
    assert outcome.error == 'the receiver answered "ok": false'
    assert outcome.response == '{"ok'


async def test_only_who_asks_is_followed(sender: HttpSender, receiver: Receiver):
    """Without follow_response the same answer is a success, and its body is not looked at."""
    answer = with_length(b'{"ok": false, "delay": "1h"}')
    outcome = await send(sender, receiver, answer, follow_response=False)
    assert (outcome.kind, outcome.again_at, outcome.response) == (Kind.OK, None, None)


async def test_where_nobody_asks_no_body_is_kept(
    sender: HttpSender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    """Nothing is parsed, and nothing of the body reaches Python."""

    def unwanted(*_: Any) -> None:
        raise AssertionError("nobody asked for it")

    monkeypatch.setattr(following, "read", unwanted)
    monkeypatch.setattr(Answers, "keep", unwanted)
    outcome = await send(sender, receiver, with_length(b'{"ok": false}'), follow_response=False)
    assert outcome.kind is Kind.OK


@pytest.mark.parametrize("status", [302, 400, 404, 410, 429, 500, 503])
async def test_the_status_comes_first(sender: HttpSender, receiver: Receiver, status: int):
    """What is no success is a failure, whatever its body asks for."""
    answer = with_length(b'{"ok": false, "delay": "1h"}', status)
    outcome = await send(sender, receiver, answer)
    assert (outcome.kind, outcome.status_code, outcome.again_at) == (Kind.HTTP, status, None)


class Echo(Receiver):
    """A receiver that answers with what it was sent, some bytes at a time."""

    by = 10_000_000

    async def _echo(
        self, request: Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        answer = with_length(request.body)
        for start in range(0, len(answer), self.by):
            writer.write(answer[start : start + self.by])
            await asyncio.sleep(0)

    _behaviours = {**Receiver._behaviours, "echo": _echo}  # noqa: RUF012 - a constant


def long_answer(length: int) -> Raw:
    body = b'{"ok": false, "delay": "1h", "log": "%s"}'
    return Raw(body % (b"x" * (length - len(body) + 2)))


@pytest.mark.parametrize("by", [4096, 10_000_000])
@pytest.mark.parametrize("length", [following.MOST_BYTES, 80_000, 500_000])
async def test_an_answer_that_is_too_long(sender: HttpSender, by: int, length: int):
    """What was not read to its end may have asked for something: it is a failed attempt."""
    async with Echo() as receiver:
        receiver.by = by
        callback = {"payload": long_answer(length), "follow_response": True}
        outcome = await sender.send(make_timer(receiver.url("/echo"), **callback), mine)
    assert (outcome.kind, outcome.status_code, outcome.retryable) == (Kind.HTTP, 200, True)
    assert outcome.error == following.CUT_OFF.error


@pytest.mark.parametrize("by", [4096, 10_000_000])
async def test_the_longest_that_is_read(sender: HttpSender, by: int):
    """All that fits into 64 KiB with its headers is understood."""
    async with Echo() as receiver:
        receiver.by = by
        payload = long_answer(following.MOST_BYTES - 100)
        callback = {"payload": payload, "follow_response": True}
        outcome = await sender.send(make_timer(receiver.url("/echo"), **callback), mine)
    assert (outcome.kind, outcome.error) == (Kind.OK, None)
    assert outcome.again_at is not None


async def test_an_answer_that_does_not_end(sender: HttpSender, receiver: Receiver):
    """Of one without an end, no more is read than of any other."""
    callback = {"follow_response": True, "timeout": 5000}
    outcome = await sender.send(make_timer(receiver.url("/endless"), **callback), mine)
    assert (outcome.kind, outcome.error) == (Kind.HTTP, following.CUT_OFF.error)


async def test_no_body_at_all(sender: HttpSender, receiver: Receiver):
    """204 says that it is done."""
    outcome = await send(sender, receiver, b"HTTP/1.1 204 \r\n\r\n")
    assert (outcome.kind, outcome.again_at) == (Kind.OK, None)


async def test_an_answer_that_breaks_off(sender: HttpSender, receiver: Receiver):
    """Half an answer is none, whatever its half says."""
    answer = b'HTTP/1.1 200 \r\nContent-Length: 99\r\nConnection: close\r\n\r\n{"ok": false}'
    outcome = await send(sender, receiver, answer, timeout=500)
    assert outcome.kind in {Kind.NETWORK, Kind.TIMEOUT}
    assert outcome.retryable


def test_a_head_request_cannot_be_followed():
    """Its answer has no body, and that is said when the timer is made."""
    callback = HttpCallback(url="https://a.example/", method="HEAD", follow_response=True)
    assert (problem_of(callback) or "").startswith("callback.follow_response: ")
    assert problem_of(HttpCallback(url="https://a.example/", follow_response=True)) is None
