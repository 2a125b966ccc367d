"""The gatherer: timers that are created at the same time share requests."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest

from duetime.api import envelope as api
from duetime.client import AsyncClient, Gatherer, ServiceError, ServiceUnreachable
from duetime.client import gathering as gathering_module
from duetime.client.gathering import AT_ONCE, LARGEST, MOST_BYTES, SMALLEST
from tests.fake_service import KEY, FakeService, envelope, ok, refused
from tests.ports import free_port
from tests.waiting import PATIENCE, settle, until

BATCH = "/timers/batch"


@pytest.fixture
def service():
    with FakeService() as running:
        running.answer = answered
        yield running


@asynccontextmanager
async def gathering(service, **options):
    async with AsyncClient(service.url, api_key=KEY, **options) as client:
        yield Gatherer(client)


def answered(request):
    """Each timer is created: its id tells which it was, by its name."""
    if request.path == BATCH:
        return batch(*(envelope(made(timer)) for timer in request.json["timers"]))
    return ok(made(request.json))


def made(timer):
    return {"id": f"id of {timer['name']}", "status": "pending"}


def batch(*items):
    return ok({"timers": list(items), "created": len(items), "failed": 0})


class Held:
    """Answers only once it is let go, but for requests that come after that."""

    def __init__(self, service) -> None:
        self.let_go = threading.Event()
        self._answer = service.answer
        service.answer = self._answered

    def _answered(self, request):
        return self._later(request) if not self.let_go.is_set() else self._answer(request)

    async def _later(self, request):
        assert await asyncio.to_thread(self.let_go.wait, PATIENCE)
        return self._answer(request)


async def all_busy(service, together):
    """Wait until as many requests are under way as there may be."""
    creating = []
    for number in range(AT_ONCE):
        creating.append(asyncio.create_task(together.create(name=f"first {number}")))
        await until(lambda count=number + 1: len(service.requests) == count)
    return creating


async def all_at_the_same_time(service, together, count):
    """So many timers, none of them answered before as many requests are under way as may be."""
    held = Held(service)
    creating = create(together, *map(str, range(count)))
    await until(lambda: len(service.requests) == AT_ONCE)
    held.let_go.set()
    return await asyncio.gather(*creating)


def create(together, *names):
    return [asyncio.create_task(together.create(name=name)) for name in names]


def sizes(service):
    """How many timers each request had; 0 is one that was sent alone."""
    return [
        len(request.json["timers"]) if request.path == BATCH else 0 for request in service.requests
    ]


async def test_one_alone_goes_out_alone(service):
    """At once, as `create` would send it, and it is answered with the timer."""
    async with gathering(service) as together:
        timer = await together.create(name="a", delay="1s", tags=["x"])
    assert timer == made({"name": "a"})
    request = service.requests[0]
    assert (request.method, request.target) == ("POST", "/timers")
    assert request.json == {"name": "a", "delay": "1s", "tags": ["x"]}
    assert request.headers["x-api-key"] == KEY


async def test_one_after_the_other(service):
    """Each of them goes out alone."""
    async with gathering(service) as together:
        timers = [await together.create(name=str(number)) for number in range(5)]
    assert timers == [made({"name": number}) for number in range(5)]
    assert sizes(service) == [0] * 5


async def test_at_the_same_time(service):
    """They share a request, and each has its own timer."""
    async with gathering(service) as together:
        names = [str(number) for number in range(SMALLEST)]
        timers = await asyncio.gather(*(together.create(name=name) for name in names))
    assert timers == [made({"name": name}) for name in names]
    assert sizes(service) == [SMALLEST]
    assert service.requests[0].headers["x-api-key"] == KEY


async def test_very_many_at_the_same_time(service):
    """They share as many requests as there may be, each about as large as the others."""
    async with gathering(service) as together:
        timers = await all_at_the_same_time(service, together, AT_ONCE * 100)
    assert timers == [made({"name": str(number)}) for number in range(AT_ONCE * 100)]
    assert sizes(service) == [100] * AT_ONCE


async def test_no_more_requests_than_there_may_be(service):
    """What is created meanwhile waits, and goes out together once one is answered."""
    held = Held(service)
    async with gathering(service) as together:
        first = await all_busy(service, together)
        later = create(together, *map(str, range(50)))
        await settle()
        assert sizes(service) == [0] * AT_ONCE
        held.let_go.set()
        assert await asyncio.gather(*later) == [made({"name": number}) for number in range(50)]
        await asyncio.gather(*first)
    assert sizes(service) == [0] * AT_ONCE + [50]


async def test_a_request_has_bounds(service):
    """So many timers, and so many bytes; a larger one goes alone."""
    async with gathering(service) as together:
        await all_at_the_same_time(service, together, AT_ONCE * LARGEST + 1)
        assert sorted(sizes(service)) == [0] + [LARGEST] * AT_ONCE
        service.requests.clear()
        half = "x" * (MOST_BYTES // 2 - 100)
        larger = "x" * (MOST_BYTES + 1)
        await asyncio.gather(*(together.create(name=name) for name in [half, half, half, larger]))
    assert sorted(sizes(service)) == [0, 0, 2]
    assert all(len(request.body) < MOST_BYTES + 100 for request in service.requests)


async def test_each_is_refused_by_itself(service):
    """With the status, the code and the sentence that it would have had alone."""

    def some(request):
        return batch(
            envelope(None, 2, "delay: is wrong"),
            envelope(made(request.json["timers"][1])),
            envelope(None, 5, "timer_id: is another timer's"),
        )

    service.answer = some
    async with gathering(service) as together:
        outcomes = await asyncio.gather(*create(together, *"abc"), return_exceptions=True)
    assert [(each.status, each.code, str(each)) for each in outcomes[::2]] == [
        (400, 2, "delay: is wrong"),
        (409, 5, "timer_id: is another timer's"),
    ]
    assert outcomes[1] == made({"name": "b"})


def test_every_code_has_its_status():
    """A refusal within a request has the status that it has outside."""
    statuses = {int(code): status for _, status, code in api._ANSWERS}
    assert statuses == gathering_module.STATUSES


async def test_the_whole_request_is_refused(service):
    """Each of its timers is, with all that was said."""
    service.answer = lambda _: refused(503, 9, "too much to do", Retry_After="2")
    async with gathering(service) as together:
        outcomes = await asyncio.gather(*create(together, *"abc"), return_exceptions=True)
    assert {(each.status, each.code, each.retry_after) for each in outcomes} == {(503, 9, 2.0)}
    assert sizes(service) == [3]


@pytest.mark.parametrize("status", [403, 413, 429])
async def test_too_many_for_one_request(status, service):
    """Smaller ones are tried, so that each timer is created, and later ones are not as large."""

    def up_to_five(request):
        count = sizes(service)[-1]
        return refused(status, 10, "these are more") if count > 5 else answered(request)

    service.answer = up_to_five
    async with gathering(service) as together:
        names = [str(number) for number in range(40)]
        timers = await asyncio.gather(*create(together, *names))
        assert timers == [made({"name": name}) for name in names]
        assert sizes(service)[:2] == [40, 20]
        service.requests.clear()
        await asyncio.gather(*create(together, *names))
    assert max(sizes(service)) <= 6


async def test_larger_ones_again(service):
    """What was refused once does not make requests small for good."""
    is_tight = True

    def for_a_while(request):
        if is_tight and request.path == BATCH:
            return refused(403, 10, "these are more")
        return answered(request)

    service.answer = for_a_while
    async with gathering(service) as together:
        names = [str(number) for number in range(64)]
        await asyncio.gather(*create(together, *names))
        is_tight = False
        for _ in range(12):
            service.requests.clear()
            await asyncio.gather(*create(together, *names))
    assert max(sizes(service)) > 16


async def test_forbidden_in_company(service):
    """A quota of its group may count a request's timers: alone it may pass, or is refused."""

    def alone_only(request):
        if request.path == BATCH:
            return batch(*(envelope(None, 10, "these are more") for _ in request.json["timers"]))
        if request.json["name"] == "b":
            return refused(403, 10, "not allowed")
        return answered(request)

    service.answer = alone_only
    async with gathering(service) as together:
        outcomes = await asyncio.gather(*create(together, *"abc"), return_exceptions=True)
    assert [outcomes[0], outcomes[2]] == [made({"name": "a"}), made({"name": "c"})]
    assert (outcomes[1].status, str(outcomes[1])) == (403, "not allowed")
    assert sizes(service) == [3, 0, 0, 0]


async def test_who_goes_away(service):
    """Is left out if it was not sent yet, and hurts nobody if it was."""
    held = Held(service)
    async with gathering(service) as together:
        first = await all_busy(service, together)
        waiting = create(together, *"abc")
        await settle()
        first[0].cancel()
        waiting[1].cancel()
        held.let_go.set()
        outcomes = await asyncio.gather(*first, *waiting, return_exceptions=True)
        gone = [isinstance(each, asyncio.CancelledError) for each in outcomes]
        assert gone == [True, False, False, False, False, True, False]
        assert await together.create(name="d") == made({"name": "d"})
    sent = [timer["name"] for request in service.requests for timer in timers_of(request)]
    assert sorted(sent[AT_ONCE:]) == ["a", "c", "d"]


def timers_of(request):
    return request.json["timers"] if request.path == BATCH else [request.json]


async def test_no_answer_in_time(service):
    """Neither for those under way nor for those that wait; and the next are not hurt."""
    service.answer = lambda _: None
    async with gathering(service, timeout=0.3) as together:
        many = create(together, *map(str, range(3 * AT_ONCE * LARGEST)))
        outcomes = await asyncio.gather(*many, return_exceptions=True)
        assert {type(each) for each in outcomes} == {ServiceUnreachable}
        await until(lambda: not together._senders)
        service.answer = answered
        assert await together.create(name="a") == made({"name": "a"})


async def test_nobody_is_there():
    """Each is told so."""
    async with AsyncClient(f"http://127.0.0.1:{free_port()}") as client:
        creating = create(Gatherer(client), *"abc")
        outcomes = await asyncio.gather(*creating, return_exceptions=True)
    assert {type(each) for each in outcomes} == {ServiceUnreachable}


@pytest.mark.parametrize(
    "answer",
    [
        ok({}),
        ok({"timers": []}),
        ok({"timers": [1, 2, 3]}),
        ok({"timers": [{"code": "0", "message": "", "data": None}] * 3}),
        ok({"timers": [{"code": 0, "message": "", "data": None}] * 3}),
        (200, b"hello"),
    ],
)
async def test_an_answer_that_is_none(answer, service):
    """Is an error for each, not a timer that nobody has made."""
    service.answer = lambda _: answer
    async with gathering(service) as together:
        outcomes = await asyncio.gather(*create(together, *"abc"), return_exceptions=True)
    assert {type(each) for each in outcomes} == {ServiceError}


async def test_what_cannot_be_sent(service):
    """Fails where it is created, and only there."""
    async with gathering(service) as together:
        outcomes = await asyncio.gather(
            together.create(name="a"),
            together.create(name=object()),
            together.create(name="c"),
            return_exceptions=True,
        )
    assert [outcomes[0], outcomes[2]] == [made({"name": "a"}), made({"name": "c"})]
    assert isinstance(outcomes[1], TypeError)


async def test_many_that_come_and_go(service):
    """Nobody is forgotten, whatever order they come in, and nothing is left behind."""
    async with gathering(service) as together:

        async def one(number):
            for turn in range(20):
                name = f"{number}.{turn}"
                assert await together.create(name=name) == made({"name": name})

        await asyncio.gather(*(one(number) for number in range(30)))
        await settle()
        assert not together._senders
    names = [timer["name"] for request in service.requests for timer in timers_of(request)]
    assert len(names) == len(set(names)) == 600
