"""A store that cannot keep up: creates are slowed, then refused, and nothing accepted is lost."""

import asyncio
import gc
from collections import Counter
from typing import Any

import pytest

from duetime.admission import MIB, PATIENCE, Marks
from duetime.api.server import ApiServer, listen
from duetime.batcher import LONGEST_WAIT, LONGEST_WRITE
from duetime.decoding import decode
from duetime.drafts import Drafts
from duetime.errors import Unavailable
from duetime.ledger import CREATES, Limits
from duetime.reads import LONGEST
from duetime.requests import CreateTimer
from duetime.searching import Filter, Part
from duetime.service import Service
from duetime.stores import Store
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.testing import FakeClock, FlakyStore, RecordingSender
from duetime.timer import Timer
from tests.api.client import KEY, Answer, Api, call_app, timer_body
from tests.api.conftest import MakeApi
from tests.api.gated import BODY, GatedStore, assert_refused, seconds, started
from tests.waiting import settle

FEW = Marks(2, MIB, 2, MIB)


async def crowded(make_api: MakeApi, gated: GatedStore) -> tuple[Api, list[asyncio.Task[Answer]]]:
    """An API with two creates under way and two in line: it takes no more."""
    api = make_api(gated, marks={"creates": FEW})
    return api, await started(*(api.post("/timers", timer_body(name=str(n))) for n in range(4)))


async def test_creates_are_refused(make_api: MakeApi, gated: GatedStore):
    """Beyond the line, creates are 503 with code 9 at once; those accepted are all written."""
    api, accepted = await crowded(make_api, gated)
    assert_refused(await api.post("/timers", timer_body()))
    assert_refused(await api.put("/groups/g/timers/x", timer_body()))
    assert_refused(await api.post("/timers/batch", {"timers": [timer_body()]}))
    gated.gate.set()
    answers = await asyncio.gather(*accepted)
    assert [answer.status for answer in answers] == [201] * 4
    listed = (await api.get("/timers")).data["timers"]
    assert {timer["id"] for timer in listed} == {answer.data["id"] for answer in answers}
    assert (await api.post("/timers", timer_body())).status == 201


async def test_creates_do_not_wait_for_ever(make_api: MakeApi, gated: GatedStore, clock: FakeClock):
    """Refused from the line after some seconds; unknown, if the write itself does not answer."""
    api, accepted = await crowded(make_api, gated)
    clock.advance(seconds(PATIENCE))
    await settle()
    assert [task.done() for task in accepted] == [False, False, True, True]
    for task in accepted[2:]:
        assert_refused(await task)
    clock.advance(seconds(LONGEST_WRITE))
    for answer in await asyncio.gather(*accepted[:2]):
        assert (answer.status, answer.code) == (500, 1)
        assert "not known whether the change was made" in answer.message
    waiting = await started(*(api.post("/timers", timer_body()) for _ in range(2)))
    assert not any(task.done() for task in waiting)  # the write still holds what it holds
    gated.gate.set()
    assert [answer.status for answer in await asyncio.gather(*waiting)] == [201, 201]
    assert (await api.get("/timers")).data["total"] == 4


@pytest.mark.promise("changes-pass")
async def test_changes_get_through(make_api: MakeApi, store: Store, gated: GatedStore):
    """While creates are refused, every change of a timer is made."""
    made = await make_api(store).create(timer_id="x")
    path = f"/timers/{made['id']}"
    api, accepted = await crowded(make_api, gated)
    assert (await api.put(path, {"name": "new"})).status == 200
    assert (await api.post(f"{path}/pause")).status == 200
    assert (await api.post(f"{path}/resume")).status == 200
    assert (await api.put("/groups/default/timers/x", timer_body(name="b"))).status == 200
    assert (await api.delete(path)).status == 200
    gated.gate.set()
    await asyncio.gather(*accepted)


async def test_change_that_does_not_answer(make_api: MakeApi, store: Store, clock: FakeClock):
    """A change whose write does not answer is unknown: it may still be made, and here it is."""
    made = await make_api(store).create()
    gated = GatedStore(store, "apply")
    api = make_api(gated)
    cancel = asyncio.create_task(api.delete(f"/timers/{made['id']}"))
    await gated.begun.acquire()
    clock.advance(seconds(LONGEST_WRITE))
    answer = await cancel
    assert (answer.status, answer.code) == (500, 1)
    gated.gate.set()
    await settle()
    async with asyncio.timeout(30):
        while (await api.shown(made["id"]))["status"] != "canceled":
            await settle()


async def test_doubt_that_cannot_be_resolved(make_api: MakeApi, store: Store, clock: FakeClock):
    """When the look after a failed write is refused, it is unknown what was written: 500."""
    gated = GatedStore(FlakyStore(store), "get")
    gated.store.failing = "after"
    api = make_api(gated, marks={"reads": Marks(1, 1, 1, 1)})
    creates = [asyncio.create_task(api.post("/timers", timer_body())) for _ in range(3)]
    refused, _ = await asyncio.wait(creates, return_when=asyncio.FIRST_COMPLETED)
    for task in refused:
        answer = await task
        assert (answer.status, answer.code) == (500, 1)
        assert "not known whether the change was made" in answer.message
    gated.gate.set()
    assert [(await task).status for task in creates] == [500] * 3


async def test_refusal_costs_nothing(make_api: MakeApi, gated: GatedStore, monkeypatch):
    """A create that is refused is not even looked at."""
    api, accepted = await crowded(make_api, gated)
    monkeypatch.setattr(Drafts, "new", None)
    assert_refused(await api.post("/timers", timer_body()))
    gated.gate.set()
    await asyncio.gather(*accepted)


async def test_changes_are_bounded_too(make_api: MakeApi, store: Store, clock: FakeClock):
    """Changes of a store that takes none are refused, and the timers are as they were."""
    plain = make_api(store)
    ids = [(await plain.create())["id"] for _ in range(5)]
    gated = GatedStore(store, "apply")
    api = make_api(gated, marks={"changes": FEW})
    tasks = await started(*(api.delete(f"/timers/{id_}") for id_ in ids))
    [refused], _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert_refused(await refused)  # the fifth, whichever that was
    gated.gate.set()
    statuses = Counter(answer.status for answer in await asyncio.gather(*tasks))
    assert statuses == {200: 4, 503: 1}
    listed = (await plain.get("/timers", status="canceled")).data
    assert listed["total"] == 4


async def test_hang_up_in_line(make_api: MakeApi, gated: GatedStore):
    """A client that hangs up leaves the line to others, and nothing is written for it."""
    api = make_api(gated, marks={"creates": FEW})
    accepted = await started(*(api.post("/timers", timer_body()) for _ in range(2)))
    hangs_up = asyncio.Event()
    headers = [(b"x-api-key", KEY.encode()), (b"content-length", str(len(BODY)).encode())]
    options: dict[str, Any] = {"headers": headers, "chunks": (BODY,), "hangs_up": hangs_up}
    gone = await started(*(call_app(api.app, "POST", "/timers", **options) for _ in range(2)))
    assert_refused(await api.post("/timers", timer_body()))
    hangs_up.set()
    for task in gone:
        with pytest.raises(ValueError, match="not enough values"):
            await task  # nothing was sent
    accepted += await started(*(api.post("/timers", timer_body()) for _ in range(2)))
    gated.gate.set()
    assert [answer.status for answer in await asyncio.gather(*accepted)] == [201] * 4
    assert (await api.get("/timers")).data["total"] == 4


async def test_hang_up_on_a_socket(make_api: MakeApi, gated: GatedStore):
    """A connection that is closed is a caller that has hung up."""
    api = make_api(gated, marks={"creates": FEW})
    accepted = await started(*(api.post("/timers", timer_body()) for _ in range(2)))
    listener = listen("127.0.0.1", 0)
    server = ApiServer(api.app, drain_for=1)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await server.is_listening.wait()
    _, writer = await asyncio.open_connection(*listener.getsockname())
    head = f"POST /timers HTTP/1.1\r\nHost: x\r\nX-API-Key: {KEY}\r\nContent-Length: {len(BODY)}"
    writer.write(head.encode() + b"\r\n\r\n" + BODY)
    async with asyncio.timeout(10):
        while not api.service._ledger.creates._count_in_line:  # noqa: ASYNC110 - a line has no event
            await asyncio.sleep(0.001)
        writer.close()
        while api.service._ledger.creates._count_in_line:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    gated.gate.set()
    await asyncio.gather(*accepted)
    assert (await api.get("/timers")).data["total"] == 2
    server.should_exit = True
    await serving


async def test_hang_up_later_changes_nothing(make_api: MakeApi, gated: GatedStore):
    """A client that hangs up after its create was let in has made a timer."""
    api = make_api(gated, marks={"creates": FEW})
    hangs_up = asyncio.Event()
    headers = [(b"x-api-key", KEY.encode())]
    call = call_app(api.app, "POST", "/timers", headers=headers, chunks=(BODY,), hangs_up=hangs_up)
    [task] = await started(call)
    hangs_up.set()
    await settle()
    gated.gate.set()
    assert (await task).status == 201


async def test_batch_counts_each(make_api: MakeApi, gated: GatedStore):
    """A batch takes as much room as it has timers; a huge one is let in when nothing else is."""
    api = make_api(gated, marks={"creates": Marks(3, MIB, 3, MIB)})
    huge = await started(api.post("/timers/batch", {"timers": [timer_body()] * 50}))
    singles = await started(*(api.post("/timers", timer_body()) for _ in range(3)))
    assert_refused(await api.post("/timers", timer_body()))
    gated.gate.set()
    [answer] = await asyncio.gather(*huge)
    assert (answer.status, answer.data["created"]) == (200, 50)
    assert [answer.status for answer in await asyncio.gather(*singles)] == [201] * 3
    service = api.service
    assert (service._ledger.creates._count, service._ledger.creates._weight) == (0, 0)


async def test_batch_gives_its_room_back(make_api: MakeApi):
    """Whatever comes of a batch, nothing of it stays."""
    api = make_api(MemoryStore(), marks={"creates": FEW})
    wrong = {"timers": [timer_body(colour="red")] * 10}
    for _ in range(3):
        assert (await api.post("/timers/batch", wrong)).data["failed"] == 10
        bad = await api.post(
            "/timers/batch", wrong | {"timers": [timer_body()]}, X_Correlation_ID=""
        )
        assert bad.status == 400
    assert (api.service._ledger.creates._count, api.service._ledger.creates._weight) == (0, 0)


async def test_batch_that_does_not_answer(make_api: MakeApi, gated: GatedStore, clock: FakeClock):
    """A batch whose write does not answer is unknown as a whole."""
    api = make_api(gated)
    [task] = await started(api.post("/timers/batch", {"timers": [timer_body()]}))
    clock.advance(seconds(LONGEST_WRITE))
    answer = await task
    assert (answer.status, answer.code) == (500, 1)
    gated.gate.set()
    await settle()


@pytest.mark.slow
@pytest.mark.promise("bounded-memory")
async def test_memory_is_bounded(clock: FakeClock):
    """50,000 creates thrown at a store that hangs: few are held, and no accepted one is lost."""
    gated = GatedStore(MemoryStore(), "insert")
    marks = Marks(1_000, CREATES.most_bytes, 500, CREATES.most_bytes_in_line)
    service = Service(gated, RecordingSender(), clock, limits=Limits(creates=marks))
    body = decode(BODY, CreateTimer)
    accepted: set[asyncio.Task[Any]] = set()
    refused = most = 0
    before = timers_in_memory()
    for _ in range(50):
        tasks = [asyncio.create_task(service.create(OPERATOR, body)) for _ in range(1_000)]
        await settle()
        for task in tasks:
            if task.done():
                assert isinstance(task.exception(), Unavailable)
                refused += 1
            else:
                accepted.add(task)
        del tasks, task
        most = max(most, timers_in_memory() - before)
    assert (len(accepted), refused) == (1_500, 48_500)
    assert most <= 1_500
    gated.gate.set()
    made = {timer.id for timer, _ in await asyncio.gather(*accepted)}
    stored = await gated.get(list(made))
    assert len(made) == 1_500
    assert all(stored)


def timers_in_memory() -> int:
    # By its type, and not isinstance: that asks a proxy of what is gone, as drivers leave some.
    return sum(type(each) is Timer for each in gc.get_objects())


async def test_what_never_began_is_refused(make_api: MakeApi, gated: GatedStore, clock: FakeClock):
    """Creates that only wait for the writes before them are told that nothing was written."""
    api = make_api(gated)
    begun = []
    for _ in range(8):
        begun += await started(api.post("/timers", timer_body()))
    waiting = await started(*(api.post("/timers", timer_body()) for _ in range(3)))
    clock.advance(seconds(LONGEST_WAIT))
    for task in waiting:
        assert_refused(await task)
    assert not any(task.done() for task in begun)
    gated.gate.set()
    await asyncio.gather(*begun)
    assert (await api.get("/timers")).data["total"] == 8


@pytest.mark.promise("bounded-memory", "changes-pass")
async def test_reads_are_bounded(make_api: MakeApi, store: Store, clock: FakeClock):
    """So many reads at once, some in line, then 503; a change still finds its timer."""
    made = await make_api(store).create()
    path = f"/timers/{made['id']}"
    gated = GatedStore(store, "search")
    api = make_api(gated, marks={"reads": Marks(100, 1, 50, 1)})
    searches = await started(*(api.get("/timers", limit=50) for _ in range(3)))
    assert_refused(await api.get(path))
    assert (await api.delete(path)).status == 200
    clock.advance(seconds(PATIENCE))
    assert_refused(await searches[2])
    clock.advance(seconds(LONGEST))
    for task in searches[:2]:
        answer = await task
        assert (answer.status, answer.code) == (503, 9)
        assert "no answer within 20 s" in answer.message
    assert (await api.get(path)).status == 200  # they have left


async def test_a_read_that_is_given_up_is_ended(clock: FakeClock):
    """What nobody waits for any more is not left running."""
    ended = asyncio.Event()

    class Hangs(GatedStore):
        async def search(self, _query):
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    service = Service(Hangs(MemoryStore()), RecordingSender(), clock)
    [task] = await started(service.search(OPERATOR, Filter(), Part()))
    clock.advance(seconds(LONGEST))
    with pytest.raises(Unavailable):
        await task
    assert ended.is_set()
