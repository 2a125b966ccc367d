"""GET /events: what happens to timers, as it happens, to those who may hear of it."""

import asyncio

import pytest

from duetime import ids
from duetime.events import hub as hub_module
from duetime.events.hub import Hub
from duetime.events.store_feed import StoreFeed
from duetime.outbox import Outbox
from duetime.stores.memory import MemoryStore
from tests.api.client import FAILED, Api
from tests.api.listening import Listening
from tests.waiting import settle

pytestmark = pytest.mark.promise("events-heard")


@pytest.fixture
async def open_api(make_api, clock):
    """Makes nodes over one store, with their outbox on."""
    hubs = []

    def make(store) -> Api:
        outbox = Outbox(store)
        hubs.append(Hub(StoreFeed(outbox, clock, keep_for=3_600_000), clock))
        return make_api(outbox, live=hubs[-1])

    yield make
    for hub in hubs:
        await hub.close()


@pytest.fixture
def api(open_api, store) -> Api:
    """The app over each of the stores."""
    return open_api(store)


@pytest.fixture
def quick_api(open_api) -> Api:
    return open_api(MemoryStore())


@pytest.fixture
async def listen():
    """Somebody who listens, until the end of the test."""
    listening = []

    async def listen(api: Api, **named) -> Listening:
        listening.append(Listening(api, **named))
        return await listening[-1].hear(0.5)

    yield listen
    for each in listening:
        await each.stop()


async def test_the_life_of_a_timer(api: Api, listen):
    """Everything that happens to it, in order, in the form that events have everywhere."""
    listener = await listen(api)
    timer = await api.create(group="g", timer_id="k", tags=["x"], correlation_id="c")
    await api.claim(timer["id"])
    await api.finish(timer["id"])
    await listener.heard(4)
    assert listener.types == ["created", "due", "attempt_started", "completed"]
    created = listener.events[0]
    assert created.data == {
        "id": created.data["id"],
        "type": "created",
        "tenant": "default",
        "group": "g",
        "timer": timer["id"],
        "timer_id": "k",
        "version": 1,
        "occurrence": 1,
        "attempt": 0,
        "time": created.data["time"],
        "correlation_id": "c",
        "tags": ["x"],
        "data": {"execute_at": timer["execute_at"], "callback_type": "http"},
    }
    assert ids.is_id(created.data["id"])


async def test_the_answer(quick_api: Api, listen):
    """The first bytes come at once; nobody keeps them; and nobody on the way keeps them back."""
    listener = await listen(quick_api)
    assert listener.status == 200
    assert listener.headers == {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
        "x-content-type-options": "nosniff",
    }
    assert listener.body.startswith(b": events of timers\nretry: 2000\nid: ")
    assert listener.body.endswith(b"\n\n")


async def test_signs_of_life(quick_api: Api, listen):
    """Every fifteen seconds in which nothing happened, with the id to go on from."""
    listener = await listen(quick_api)
    await listener.hear(46)
    beats = [each for each in listener.said if each.comment == "heartbeat"]
    assert len(beats) == 3
    assert len({each.id for each in beats}) == 3


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ["created", "created", "created", "canceled"]),
        ({"group": "g"}, ["created", "created"]),
        ({"type": ["canceled", "failed"]}, ["canceled"]),
        ({"tag": ["x"]}, ["created", "created", "canceled"]),
        ({"tag": ["x", "y"]}, ["created"]),
        ({"group": "g", "tag": "x", "type": "created"}, ["created"]),
    ],
)
async def test_filters(quick_api: Api, listen, params, expected):
    """Each alone and together."""
    listener = await listen(quick_api, **params)
    await quick_api.create(group="g", tags=["x", "y"])
    await quick_api.create(group="g")
    other = await quick_api.create(tags=["x"])
    await quick_api.delete(f"/timers/{other['id']}")
    await listener.hear()
    assert sorted(listener.types) == sorted(expected)


async def test_of_one_timer(quick_api: Api, listen):
    """By its id, in either case."""
    timer = await quick_api.create()
    listener = await listen(quick_api, timer=timer["id"].upper())
    await quick_api.create()
    await quick_api.delete(f"/timers/{timer['id']}")
    await listener.hear()
    assert {each.data["timer"] for each in listener.events} == {timer["id"]}
    assert listener.types[-1] == "canceled"


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize(
    ("params", "headers", "message"),
    [
        ({"group": "a b"}, {}, "group: "),
        ({"type": "nothing"}, {}, "type: "),
        ({"timer": "x"}, {}, "timer: must be a UUID"),
        ({"tag": ""}, {}, "tag: "),
        ({"follow": "perhaps"}, {}, "follow: "),
        ({"api_key": "k"}, {}, "api_key: unknown parameter"),
        ({"last_event_id": "x"}, {}, "Last-Event-ID: is not one that this stream gave out"),
        ({}, {"last-event-id": "x"}, "Last-Event-ID: is not one that this stream gave out"),
    ],
)
async def test_bad_input(quick_api: Api, params, headers, message):
    """It is told what is wrong, by its name."""
    answer = await quick_api.call("GET", "/events", params=params, headers=headers)
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith(message)
    assert not quick_api.service.live._readers


async def test_without_an_outbox(make_api):
    """It is said what to switch on."""
    api: Api = make_api(MemoryStore())
    answer = await api.get("/events")
    assert (answer.status, answer.code) == (409, 5)
    assert "OUTBOX=on" in answer.message


async def test_head_does_not_hang(quick_api: Api):
    """It has the headers, and an end."""
    answer = await asyncio.wait_for(quick_api.call("HEAD", "/events"), 5)
    assert answer.status == 200
    assert answer.body == b""
    assert not quick_api.service.live._readers


@pytest.mark.parametrize("how", ["header", "parameter"])
async def test_going_on_from_an_id(api: Api, listen, how):
    """Without a gap; the header goes before the parameter."""
    listener = await listen(api)
    await api.create()
    await listener.heard(1)
    await listener.stop()
    missed = await api.create()
    api.clock.advance(10)
    if how == "header":
        named = {"headers": {"last-event-id": listener.last_id}, "last_event_id": "first"}
    else:
        named = {"last_event_id": listener.last_id}
    again = await listen(api, **named)
    new = await api.create()
    await again.heard(2)
    assert [each.data["timer"] for each in again.events] == [missed["id"], new["id"]]


async def test_going_on_at_another_node(open_api, store, listen):
    """Nothing is missed; what was heard may come again, with the same event's id."""
    here, there = open_api(store), open_api(store)
    listener = await listen(here)
    first = await there.create()
    await listener.heard(1)
    await listener.stop()
    second = await here.create()
    again = await listen(there, headers={"last-event-id": listener.last_id})
    await again.heard(2)
    assert [each.data["timer"] for each in again.events] == [first["id"], second["id"]]
    assert again.events[0].data == listener.events[0].data


async def test_each_node_tells_of_the_whole_cluster(open_api, store, listen):
    """Whichever one wrote it."""
    nodes = [open_api(store), open_api(store)]
    listeners = [await listen(node) for node in nodes]
    made = [(await node.create())["id"] for node in nodes]
    for listener in listeners:
        await listener.heard(2)
        assert sorted(each.data["timer"] for each in listener.events) == sorted(made)


async def test_all_that_is_kept(quick_api: Api, listen):
    """Without following: from the first, and then it says that this was all."""
    made = []
    for _ in range(3):
        made.append((await quick_api.create())["id"])
        quick_api.clock.advance(1_000)
    listener = await listen(quick_api, follow="false")
    assert listener.is_over
    assert [each.data.get("timer") for each in listener.events] == [*made, None]
    assert listener.events[-1].type == "end"
    new = await quick_api.create()
    quick_api.clock.advance(1_000)
    again = await listen(quick_api, follow="false", last_event_id=listener.last_id, type="created")
    assert again.events[-2].data["timer"] == new["id"]


@pytest.mark.promise("tenants-apart", "roles-hold")
async def test_who_hears_what(quick_api: Api, listen):
    """Their own tenant, and of it their groups."""
    api = quick_api
    keys = {
        "acme": await api.make_key("acme", "read_without_payloads"),
        "g": await api.make_key(groups=["g"], role="read"),
        "all": await api.make_key(role="read"),
    }
    listeners = {name: await listen(api, key=key) for name, key in keys.items()}
    in_g = await api.create(group="g")
    other = await api.create(group="h")
    acme = await api.call("POST", "/timers", None, headers={"x-tenant-id": "acme"})
    assert acme.status == 400
    body = {"delay": "1h", "callback": {"type": "http", "url": "https://example.com"}}
    acme = await api.call("POST", "/timers", body, headers={"x-tenant-id": "acme"})
    expected = {
        "acme": [acme.data["id"]],
        "g": [in_g["id"]],
        "all": [in_g["id"], other["id"]],
    }
    for name, listener in listeners.items():
        await listener.hear()
        heard = [each.data["timer"] for each in listener.events]
        assert sorted(heard) == sorted(expected[name]), name
    answer = await api.call("GET", "/events", key=keys["g"], params={"group": "h"})
    assert answer.summary == (403, 10, "group: this key is not for the group 'h'")


@pytest.mark.promise("tenants-apart")
async def test_an_id_of_another_tenant(quick_api: Api, listen):
    """It opens nothing, and tells nothing."""
    key = await quick_api.make_key("acme", "read")
    listener = await listen(quick_api)
    answer = await quick_api.call(
        "GET", "/events", key=key, headers={"last-event-id": listener.last_id}
    )
    assert (answer.status, answer.code) == (400, 2)
    assert ids.is_id(listener.last_id) is False


@pytest.mark.promise("no-secret")
async def test_no_key_in_the_address(quick_api: Api):
    """It would stand in the logs of proxies."""
    answer = await quick_api.call("GET", "/events", key=None, params={"x-api-key": "k"})
    assert answer.status == 401


@pytest.mark.promise("roles-hold")
async def test_a_key_that_is_revoked(quick_api: Api, listen):
    """It hears nothing more, is told why, and that is the end."""
    key = await quick_api.make_key(role="read", name="ends")
    listener = await listen(quick_api, key=key)
    keys = (await quick_api.get("/tenants/default/keys")).data["keys"]
    id_ = next(each["id"] for each in keys if each["name"] == "ends")
    assert (await quick_api.delete(f"/tenants/default/keys/{id_}")).status == 200
    await quick_api.create()
    await listener.hear()
    assert listener.is_over
    assert [(each.type, each.data["code"], each.data["message"]) for each in listener.events] == [
        ("error", 4, "unauthorized")
    ]


@pytest.mark.promise("roles-hold")
async def test_a_tenant_that_is_deleted(quick_api: Api, listen):
    """Whoever listened for it hears no more, at the next sign of life at the latest."""
    key = await quick_api.make_key("acme", "read")
    listener = await listen(quick_api, key=key)
    assert (await quick_api.delete("/tenants/acme")).status == 200
    await listener.hear(20)
    assert listener.is_over
    assert listener.types == ["error"]


@pytest.mark.promise("roles-hold")
async def test_a_key_that_ends_while_nothing_happens(quick_api: Api, listen):
    """At the next sign of life."""
    key = await quick_api.make_key(role="read", expires_in="60s")
    listener = await listen(quick_api, key=key)
    await listener.hear(50)
    assert not listener.is_over
    await listener.hear(30)
    assert listener.is_over
    assert listener.types == ["error"]


async def test_who_hangs_up_is_noticed_at_once(quick_api: Api, listen):
    """Though nothing happens that could be said."""
    listener = await listen(quick_api)
    assert len(quick_api.service.live._readers) == 1
    listener.hangs_up.set()
    await settle()
    assert listener.task.done()
    assert not quick_api.service.live._readers


@pytest.mark.promise("bounded-memory")
async def test_a_slow_reader_is_told_that_it_was_left_behind(quick_api: Api, listen, monkeypatch):
    """It can go on from the id that it is told."""
    monkeypatch.setattr(hub_module, "MOST_EVENTS", 5)
    listener = await listen(quick_api)
    first = await quick_api.create()
    await listener.hear()
    listener.may_send.clear()
    missed = [(await quick_api.create())["id"]]
    await listener.hear()  # this one is on its way to them
    for _ in range(10):
        quick_api.clock.advance(10)
        missed.append((await quick_api.create())["id"])
    await listener.hear()
    listener.may_send.set()
    await listener.hear()
    assert listener.is_over
    assert listener.types == ["created", "created", "error"]
    last = listener.events[-1].data
    assert last["code"] == 9
    assert "too slowly" in last["message"]
    again = await listen(quick_api, last_event_id=last["last_event_id"])
    await again.hear()
    heard = [each.data["timer"] for each in again.events]
    assert [each for each in heard if each not in {first["id"], missed[0]}] == missed[1:]


@pytest.mark.promise("bounded-memory")
async def test_who_takes_nothing_at_all_is_cut_off(quick_api: Api, listen):
    """After a minute; nothing can be said to them."""
    listener = await listen(quick_api)
    listener.may_send.clear()
    await quick_api.create()
    await listener.hear(30)
    assert not listener.task.done()
    await listener.hear(40)
    assert listener.was_aborted
    assert listener.task.done()
    assert not quick_api.service.live._readers


@pytest.mark.promise("bounded-memory", "quotas-hold")
async def test_how_many_may_listen(quick_api: Api, listen, monkeypatch):
    """Whoever is one too many is told when to come back."""
    monkeypatch.setattr(hub_module, "MOST_OF_A_TENANT", 2)
    listeners = [await listen(quick_api) for _ in range(2)]
    answer = await quick_api.get("/events")
    assert (answer.status, answer.code) == (429, 7)
    assert answer.headers["retry-after"] == "5"
    await listeners[0].stop()
    await listen(quick_api)


async def test_a_node_that_stops(quick_api: Api, listen):
    """Each stream ends at once, with what to do; the next request is refused."""
    listener = await listen(quick_api)
    await quick_api.service.live.close()
    await settle()
    assert listener.is_over
    [last] = listener.events
    assert (last.type, last.data["code"]) == ("error", 9)
    assert "this node is stopping" in last.data["message"]
    assert last.data["last_event_id"] == listener.last_id
    assert (await quick_api.get("/events")).status == 503


@pytest.mark.promise("failing-store")
async def test_it_says_nothing_that_the_store_said(quick_api: Api, listen):
    """A failing attempt is an event like others."""
    listener = await listen(quick_api)
    timer = await quick_api.create()
    await quick_api.claim(timer["id"])
    await quick_api.finish(timer["id"], FAILED)
    await listener.hear()
    assert listener.types == ["created", "due", "attempt_started", "attempt_failed", "failed"]
