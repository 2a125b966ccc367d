"""The Python client and events: heard as they come, and gone on with after a break."""

import json

import pytest

from duetime.client import AsyncClient, Client, ServiceError, ServiceUnreachable, following
from duetime.client.sse import Said, Sse
from tests.fake_service import KEY, FakeService, Pieces, ok, refused

pytestmark = pytest.mark.promise("events-heard")


def stream(*parts: bytes, breaks_off: bool = False):
    """An answer of Server-Sent Events."""
    return 200, Pieces(list(parts), breaks_off), {"Content-Type": "text/event-stream"}


def said(number: int, type_: str = "created") -> bytes:
    data = json.dumps({"id": f"e{number}", "type": type_})
    return f"id: p{number}\nevent: {type_}\ndata: {data}\n\n".encode()


def last_word(code: int, message: str = "as told") -> bytes:
    return b"event: error\ndata: %s\n\n" % json.dumps({"code": code, "message": message}).encode()


HELLO = b": events of timers\nretry: 2000\nid: p0\n\n"
END = b"event: end\nid: p9\ndata: {}\n\n"


@pytest.fixture
def service():
    with FakeService() as running:
        yield running


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Nobody waits in tests; how long it would be is asked by name."""
    monkeypatch.setattr(following, "_FIRST_PAUSE", 0.0)


def answering(service: FakeService, *answers) -> None:
    """One after another."""
    left = list(answers)
    service.answer = lambda _: left.pop(0)


async def both(service: FakeService, *answers, **asked) -> list[list[tuple[str, str]]]:
    """What both clients hear, which is the same."""
    answering(service, *answers)
    with Client(service.url, api_key=KEY) as client:
        plain = [(each["id"], each["position"]) for each in client.events(**asked)]
    answering(service, *answers)
    async with AsyncClient(service.url, api_key=KEY) as client:
        coming = [(each["id"], each["position"]) async for each in client.events(**asked)]
    assert plain == coming
    half = len(service.requests) // 2
    assert [request[:2] for request in service.requests[:half]] == [
        request[:2] for request in service.requests[half:]
    ]
    return plain


async def test_events_however_they_are_cut(service):
    """Pieces end anywhere; comments and ids alone are no events."""
    whole = HELLO + said(1) + b": heartbeat\nid: p1b\n\n" + said(2, "due") + END
    for size in (1, 7, len(whole)):
        parts = [whole[at : at + size] for at in range(0, len(whole), size)]
        heard = await both(service, stream(*parts), follow=False, group="g", type=["due", "failed"])
        assert heard == [("e1", "p1"), ("e2", "p2")]
    assert service.requests[0].target == "/events?group=g&type=due&type=failed&follow=false"
    assert service.requests[0].headers["accept"] == "text/event-stream"
    assert "last-event-id" not in service.requests[0].headers


async def test_from_a_position(service):
    """It is sent along, and goes back as the service gave it."""
    await both(service, stream(HELLO, END), after="first")
    assert service.requests[0].headers["last-event-id"] == "first"


@pytest.mark.parametrize(
    "end",
    [
        stream(HELLO, said(1), said(2), breaks_off=True),
        stream(HELLO, said(1), said(2)),
        stream(HELLO, said(1), said(2), last_word(9, "this node is stopping")),
        stream(HELLO, said(1), said(2), last_word(7)),
    ],
)
async def test_after_a_break_it_goes_on(service, end):
    """From the last id; what comes again is not told again."""
    heard = await both(service, end, stream(said(2), said(3), END))
    assert heard == [("e1", "p1"), ("e2", "p2"), ("e3", "p3")]
    assert service.requests[1].headers["last-event-id"] == "p2"


async def test_after_a_break_before_anything_was_heard(service):
    """From the id that the first bytes had: what happened meanwhile is not missed."""
    heard = await both(service, stream(HELLO, breaks_off=True), stream(said(1), END))
    assert heard == [("e1", "p1")]
    assert service.requests[1].headers["last-event-id"] == "p0"


async def test_a_sign_of_life_says_how_far_it_is(service):
    """So that nothing has to be gone through twice."""
    beat = b": heartbeat\nid: p7\n\n"
    await both(service, stream(HELLO, said(1), beat), stream(END))
    assert service.requests[1].headers["last-event-id"] == "p7"


async def test_a_service_that_is_away_for_a_while(service):
    """It is asked again, and who listens is told."""
    breaks = []
    heard = await both(
        service,
        stream(HELLO, said(1), breaks_off=True),
        refused(503, 9, "stopping"),
        refused(429, 7, "too many"),
        stream(said(2), END),
        on_break=breaks.append,
    )
    assert heard == [("e1", "p1"), ("e2", "p2")]
    assert [getattr(error, "status", None) for error in breaks[:3]] == [None, 503, 429]


@pytest.mark.parametrize("status", [400, 401, 403, 409])
async def test_what_will_not_pass_is_raised(service, status):
    """At once, and after a break."""
    for answers in (
        [refused(status, 5, "no")],
        [stream(HELLO, said(1), breaks_off=True), refused(status, 5, "no")],
    ):
        with pytest.raises(ServiceError, match="no") as caught:
            await both(service, *answers)
        assert caught.value.status == status


@pytest.mark.parametrize(("code", "status"), [(4, 401), (10, 403), (2, 400)])
async def test_a_last_word_that_will_not_pass(service, code, status):
    """A key that was revoked, say."""
    with pytest.raises(ServiceError, match="as told") as caught:
        await both(service, stream(HELLO, said(1), last_word(code)))
    assert (caught.value.status, caught.value.code) == (status, code)


async def test_a_first_call_that_fails_is_told_at_once(service):
    """The address may be wrong; nobody waits for it in vain."""
    with pytest.raises(ServiceError, match="as told"):
        await both(service, refused(503, 9, "as told"))
    with Client("http://127.0.0.1:1") as client, pytest.raises(ServiceUnreachable):
        next(client.events())


@pytest.mark.parametrize("answer", [(200, b"<html>"), ok({}), (204, b"")])
async def test_something_else(service, answer):
    """A page of a proxy is no stream."""
    with pytest.raises(ServiceError, match="not the answer of a Duetime service"):
        await both(service, answer)


@pytest.mark.parametrize("data", ["[]", "no json", '{"id": "a"}', '{"id": 1, "type": "x"}'])
async def test_what_is_no_event(service, data):
    """It is passed over."""
    odd = f"id: p1\nevent: created\ndata: {data}\n\n".encode()
    assert await both(service, stream(HELLO, odd, said(2), END)) == [("e2", "p2")]


def test_pauses_get_longer(monkeypatch):
    """Up to a limit; what the service asks for is kept; a stream that lives makes them short."""
    monkeypatch.setattr(following, "_FIRST_PAUSE", 0.25)
    listener = following.Following({}, None, follow=True)
    listener.take(HELLO)
    pauses = [listener.pause_after(None) for _ in range(8)]
    assert pauses == [0.25, 0.5, 1, 2, 4, 8, 10, 10]
    assert listener.pause_after(ServiceError(429, 7, "too many", 60.0)) == 60
    listener.call()
    listener.take(HELLO)
    assert listener.pause_after(None) == 10
    listener.call()
    listener.take(HELLO + said(1))
    assert listener.pause_after(None) == 0.25


@pytest.mark.promise("bounded-memory")
def test_what_is_remembered_is_bounded(monkeypatch):
    """Only what could come again."""
    monkeypatch.setattr(following, "_MOST_REMEMBERED", 3)
    listener = following.Following({}, None, follow=True)
    for number in range(10):
        listener.take(said(number))
    assert len(listener._heard) == 3


def test_lines_may_end_as_they_like():
    """As the standard has it."""
    sse = Sse()
    assert sse.feed(b"event: x\r\ndata: a\r\ndata:b\r\nid: 1\r") == []
    assert sse.feed(b"\n\r\n") == [Said("x", "a\nb", "1")]
