"""What comes of answers that a group holds to something."""

import json

import pytest

from duetime.delivery.http import HttpSender
from duetime.delivery.schema import compiled
from duetime.delivery.terms import Terms
from duetime.timer import Kind, Outcome
from tests.delivery.conftest import MakeSender, make_timer, mine, the_same_for_all
from tests.delivery.receiver import Receiver

OK = {"type": "object", "required": ["ok"], "properties": {"ok": {"const": True}}}
ANY = "{}"
MISMATCH = "the answer does not match response_schema: "
TOO_LONG = "the answer is longer than 64 KiB, its headers included: it is not checked by"


def by_schema(schema: object) -> Terms:
    return Terms(check=compiled(json.dumps(schema)))


@pytest.fixture
def checking(make_sender: MakeSender) -> HttpSender:
    return make_sender(terms=the_same_for_all(by_schema(OK)))


def answer(body: bytes, status: int = 200, head: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d \r\n%bContent-Length: %d\r\n\r\n%b" % (status, head, len(body), body)


async def send(
    sender: HttpSender, receiver: Receiver, wire: bytes, *, by: int = 99_999, **timer
) -> Outcome:
    url = receiver.url(f"/say?by={by}&hex={wire.hex()}")
    return await sender.send(make_timer(url, timeout=5000, **timer), mine)


@pytest.mark.parametrize("by", [1, 7, 9999])
@pytest.mark.parametrize("status", [200, 201, 202])
async def test_an_answer_that_matches(
    checking: HttpSender, receiver: Receiver, status: int, by: int
):
    """Completes the timer, however it is cut into pieces; nothing of it is kept."""
    for _ in range(2):
        outcome = await send(checking, receiver, answer(b'{"ok": true}', status), by=by)
        assert (outcome.kind, outcome.error, outcome.response) == (Kind.OK, None, None)
    assert receiver.connections == 1


async def test_an_answer_that_does_not(checking: HttpSender, receiver: Receiver):
    """Is a failed attempt of its own kind, which is tried again like a 5xx."""
    outcome = await send(checking, receiver, answer(b'{"ok": "s3cret"}'), response_bytes=5)
    assert (outcome.kind, outcome.status_code, outcome.retryable) == (Kind.RESPONSE, 200, True)
    assert outcome.error == MISMATCH + "const fails at /ok"
    assert (outcome.response, outcome.retry_at) == ('{"ok"', None)
    assert outcome.latency_ms is not None


async def test_what_it_asks_for(checking: HttpSender, receiver: Receiver):
    """A Retry-After is obeyed then, as after a 5xx; after an answer that matches there is none."""
    wait = b"Retry-After: 60\r\n"
    outcome = await send(checking, receiver, answer(b"{}", head=wait), response_headers=("x",))
    assert outcome.retry_at is not None
    assert outcome.response_headers == {}
    outcome = await send(checking, receiver, answer(b'{"ok":true}', head=wait))
    assert outcome.retry_at is None


@pytest.mark.parametrize("status", [302, 404, 410, 429, 500])
async def test_only_success_is_checked(checking: HttpSender, receiver: Receiver, status: int):
    """The body of any other answer may be what it likes."""
    outcome = await send(checking, receiver, answer(b"sorry", status))
    assert (outcome.kind, outcome.status_code) == (Kind.HTTP, status)
    assert MISMATCH not in (outcome.error or "")


@pytest.mark.parametrize("wire", [answer(b""), b"HTTP/1.1 204 \r\n\r\n"], ids=["200", "204"])
async def test_an_empty_answer(checking: HttpSender, receiver: Receiver, wire: bytes):
    """Is no JSON, so it matches nothing."""
    outcome = await send(checking, receiver, wire)
    assert (outcome.kind, outcome.error) == (Kind.RESPONSE, MISMATCH + "it is empty")


async def test_head(checking: HttpSender, receiver: Receiver):
    """The answer to a HEAD has no body that could match."""
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"
    outcome = await send(checking, receiver, wire, method="HEAD")
    assert (outcome.kind, outcome.error) == (Kind.RESPONSE, MISMATCH + "it is empty")


async def test_in_chunks(checking: HttpSender, receiver: Receiver):
    """They are put together."""
    wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    wire += b'6\r\n{"ok":\r\n5\r\ntrue}\r\n0\r\n\r\n'
    assert (await send(checking, receiver, wire)).kind is Kind.OK


@pytest.mark.parametrize("by", [1000, 100_000])
async def test_a_long_answer(make_sender: MakeSender, receiver: Receiver, by: int):
    """Up to 64 KiB with its headers it is checked; one byte more and it is not, in any pieces."""
    sender = make_sender(terms=the_same_for_all(by_schema({})))
    head = len(answer(b"x" * 50_000)) - 50_000
    longest = b'"' + b"x" * (65_536 - head - 2) + b'"'
    outcome = await send_by_post(sender, receiver, answer(longest), by)
    assert (outcome.kind, outcome.error) == (Kind.OK, None)
    outcome = await send_by_post(sender, receiver, answer(longest[:-1] + b'x"'), by)
    assert outcome.kind is Kind.RESPONSE
    assert (outcome.error or "").startswith(TOO_LONG)


async def send_by_post(sender: HttpSender, receiver: Receiver, wire: bytes, by: int) -> Outcome:
    """Have an answer that is too long for a URL."""
    receiver.prepared = wire
    return await sender.send(make_timer(receiver.url(f"/prepared?by={by}"), timeout=5000), mine)


async def test_where_more_is_read(make_sender: MakeSender, receiver: Receiver):
    """What is longer than can be checked is not, wherever else the limit of reading is."""
    sender = make_sender(terms=the_same_for_all(by_schema({})), read_at_most=200_000)
    body = b'"' + b"x" * 65_534 + b'"'
    assert (await send_by_post(sender, receiver, answer(body), 9999)).kind is Kind.OK
    outcome = await send_by_post(sender, receiver, answer(body + b" "), 9999)
    assert outcome.kind is Kind.RESPONSE
    assert (outcome.error or "").startswith("the answer is longer than 64 KiB: it is not checked")


async def test_an_endless_answer(checking: HttpSender, receiver: Receiver):
    """Is not read to its end, which it has not, and no more of it is kept than can be checked."""
    outcome = await checking.send(make_timer(receiver.url("/endless")), mine)
    assert outcome.kind is Kind.RESPONSE
    assert (outcome.error or "").startswith(TOO_LONG)


async def test_a_badly_written_answer(checking: HttpSender, receiver: Receiver):
    """Its status would count, but nobody knows what else it would have said."""
    wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    outcome = await send(checking, receiver, wire + b'b\r\n{"ok":true}\r\nzz\r\nabc')
    assert outcome.kind is Kind.RESPONSE
    assert outcome.error == ("the answer is not valid HTTP: it is not checked by response_schema")


async def test_terms_are_asked_for_at_every_attempt(make_sender: MakeSender, receiver: Receiver):
    """So what a group asks for counts for timers that were made before."""
    terms = [Terms(), by_schema(OK), by_schema({}), Terms()]
    sender = make_sender(terms=lambda _timer: terms.pop(0))
    kinds = [(await send(sender, receiver, answer(ANY.encode()))).kind for _ in range(4)]
    assert kinds == [Kind.OK, Kind.RESPONSE, Kind.OK, Kind.OK]
