"""The Python client: what it sends, and what it makes of the answers."""

import socket

import pytest

from duetime.client import AsyncClient, Client, ClientError, ServiceError, ServiceUnreachable
from tests.fake_service import KEY, FakeService, ok, refused
from tests.twin_clients import Twin

TIMER = {"id": "01", "status": "pending"}
CALLBACK = {"type": "http", "url": "https://example.com"}


@pytest.fixture
def service():
    with FakeService() as running:
        yield running


@pytest.fixture
def both(service):
    return Twin(service)


@pytest.mark.parametrize(
    ("method", "args", "sent"),
    [
        ("get", ("01",), "GET /timers/01"),
        ("update", ("01",), "PUT /timers/01"),
        ("cancel", ("01",), "DELETE /timers/01"),
        ("fire", ("01",), "POST /timers/01/fire"),
        ("pause", ("01",), "POST /timers/01/pause"),
        ("resume", ("01",), "POST /timers/01/resume"),
        ("redrive", ("01",), "POST /timers/01/redrive"),
        ("attempts", ("01",), "GET /timers/01/attempts"),
        ("get_by_key", ("g", "k"), "GET /groups/g/timers/k"),
        ("put_by_key", ("g", "k"), "PUT /groups/g/timers/k"),
        ("cancel_by_key", ("g", "k"), "DELETE /groups/g/timers/k"),
        ("create", (), "POST /timers"),
        ("create_batch", ([],), "POST /timers/batch"),
        ("page", (), "GET /timers"),
        ("nodes", (), "GET /nodes"),
        ("health", (), "GET /healthz"),
        ("ready", (), "GET /readyz"),
        ("get", ("../a b",), "GET /timers/..%2Fa%20b"),
        ("get_by_key", ("g", "order/ü?#"), "GET /groups/g/timers/order%2F%C3%BC%3F%23"),
    ],
)
async def test_each_method_is_one_request(method, args, sent, both, service):
    """With the key, to its path, and answered with the envelope's data."""
    service.answer = lambda _: ok(TIMER)
    assert await both(method, *args) == TIMER
    request = service.requests[0]
    assert f"{request.method} {request.target}" == sent
    assert request.headers["x-api-key"] == KEY
    assert request.headers["user-agent"].startswith("duetime-client/")


async def test_a_timer_is_sent_as_it_is_given(both, service):
    """Fields go into the body; the idempotency key goes into its header."""
    await both("create", delay="10s", callback=CALLBACK, tags=["a"], idempotency_key="once")
    request = service.requests[0]
    assert request.json == {"delay": "10s", "callback": CALLBACK, "tags": ["a"]}
    assert request.headers["content-type"] == "application/json"
    assert request.headers["idempotency-key"] == "once"


async def test_a_batch_is_one_request(both, service):
    """All its timers are in one body."""
    timer = {"delay": "1s", "callback": CALLBACK}
    await both("create_batch", [timer, timer])
    assert service.requests[0].json == {"timers": [timer, timer]}


@pytest.mark.promise("nothing-unseen")
@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("update", ("01",)),
        ("cancel", ("01",)),
        ("put_by_key", ("g", "k")),
        ("cancel_by_key", ("g", "k")),
    ],
)
async def test_a_version_becomes_a_precondition(method, args, both, service):
    """if_version is sent as If-Match, in quotes like every entity tag; without it, nothing is."""
    await both(method, *args, if_version=3)
    assert service.requests[0].headers["if-match"] == '"3"'
    service.requests.clear()
    await both(method, *args)
    assert "if-match" not in service.requests[0].headers


async def test_a_list_follows_the_cursor(both, service):
    """Page after page, with the same filters, until there is none."""

    def answer(request):
        if request.query.get("cursor") == "c2":
            return ok({"timers": [{"id": "3"}], "next_cursor": None})
        return ok({"timers": [{"id": "1"}, {"id": "2"}], "next_cursor": "c2"})

    service.answer = answer
    timers = await both("list", status="failed", limit=2, offset=4)
    assert [timer["id"] for timer in timers] == ["1", "2", "3"]
    assert service.requests[0].query == {"status": "failed", "limit": "2", "offset": "4"}
    assert service.requests[1].query == {"status": "failed", "limit": "2", "cursor": "c2"}
    assert len(service.requests) == 4


async def test_a_filter_that_is_none_is_not_sent(both, service):
    """Callers pass on what they have."""
    service.answer = lambda _: ok({"timers": []})
    await both("page", status=None, tag="a&b")
    assert service.requests[0].target == "/timers?tag=a%26b"


def test_a_refusal_is_an_exception_with_all_it_said(service):
    """The HTTP status, the code and the message."""
    service.answer = lambda _: refused(404, 3, "timer not found")
    with Client(service.url) as client, pytest.raises(ServiceError) as caught:
        client.get("01")
    error = caught.value
    assert (error.status, error.code, error.message) == (404, 3, "timer not found")
    assert str(error) == "timer not found"


@pytest.mark.parametrize("status", [200, 302, 502])
async def test_an_answer_that_is_not_duetimes_is_told_as_such(status, service):
    """A proxy's page is no answer, whatever its status; redirects are not followed."""
    service.answer = lambda _: (status, b"<html>")
    async with AsyncClient(service.url) as client:
        with pytest.raises(ServiceError, match="not the answer of a Duetime service") as caught:
            await client.health()
    assert caught.value.status == status
    assert len(service.requests) == 1


async def test_a_service_that_is_not_there_is_named():
    """With its address, and without the key."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        why = f"cannot reach {url}: "
        with Client(url, api_key=KEY) as client, pytest.raises(ClientError, match=why) as caught:
            client.health()
        async with AsyncClient(url, api_key=KEY) as client:
            with pytest.raises(ServiceUnreachable, match=why):
                await client.health()
    assert "refused" in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_service_that_is_silent_is_given_up(service):
    """After the timeout, and it says so."""
    service.answer = lambda _: None
    with Client(service.url, timeout=0.05) as client, pytest.raises(ServiceUnreachable) as caught:
        client.health()
    assert str(caught.value) == f"no answer from {service.url} in time"


def test_an_address_that_is_none_is_refused():
    """An address that is none is refused before anything is sent."""
    with pytest.raises(ClientError, match="must be an http or https URL"):
        Client("localhost:8080")


def test_a_key_that_fits_into_no_header_is_refused(service):
    """As a client's error, like all others."""
    with Client(service.url, api_key="line\nbreak") as client, pytest.raises(ClientError):
        client.health()
