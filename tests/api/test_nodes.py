"""GET /nodes: who is there, as the node that answers sees it."""

import pytest

from duetime.api.nodes import ranges
from duetime.engine import Engine
from duetime.stores import Store
from duetime.testing import FlakyStore
from tests.api.client import Api


@pytest.fixture
def engines(store, sender, clock) -> list[Engine]:
    """Three engines on one store; a test moves them by hand."""
    return [Engine(name, store, sender, clock) for name in ("a", "b", "c")]


async def beat(clock, *engines: Engine, times: int = 1) -> None:
    for _ in range(times):
        clock.advance(500)
        for engine in engines:
            await engine.members.step()


@pytest.fixture
def node_api(make_api, store: Store, engines) -> Api:
    """The API of the first of them."""
    return make_api(store, engine=engines[0])


async def states(api: Api) -> dict[str, str]:
    answer = await api.get("/nodes")
    assert answer.status == 200, answer
    return {node["name"]: node["state"] for node in answer.data["nodes"]}


async def test_a_node_that_is_alone(node_api: Api, engines, clock):
    """A node that is alone tells all about itself."""
    await engines[0].members.step()
    clock.advance(250)
    [node] = (await node_api.get("/nodes")).data["nodes"]
    assert node.pop("host")
    assert node.pop("pid") > 0
    assert node.pop("version")
    assert node == {
        "name": "a",
        "state": "alive",
        "is_this": True,
        "started_at": "2025-10-26T10:30:00Z",
        "last_seen_ms": 250,
        "shards": 4096,
        "shard_ranges": None,
        "behind_ms": 0,
        "runs_api": True,
        "runs_engine": True,
    }


async def test_nodes_come_and_go(node_api: Api, engines, clock):
    """Nodes are shown as joining, alive, dead and leaving, each in its turn."""
    a, b, c = engines
    assert await states(node_api) == {"a": "joining"}
    await a.members.step()
    await b.members.step()
    await a.members.step()
    assert await states(node_api) == {"a": "alive", "b": "joining"}
    await beat(clock, a, b, c, times=4)
    assert await states(node_api) == {"a": "alive", "b": "alive", "c": "alive"}
    await c.members.leave()
    await beat(clock, a)
    assert await states(node_api) == {"a": "alive", "b": "alive"}
    for _ in range(11):
        clock.advance(1_000)
        await a.members.step()
    assert await states(node_api) == {"a": "alive", "b": "dead"}
    await a.members.leave()
    assert await states(node_api) == {"a": "leaving", "b": "dead"}


async def test_a_newcomer_does_not_know_yet_who_is_alive(make_api, store, engines, clock):
    """A record that has not moved since it came may be anybody's."""
    a, b, _ = engines
    await a.members.step()
    await b.members.step()
    api = make_api(store, engine=b)
    assert await states(api) == {"a": "unknown", "b": "joining"}
    await a.members.step()
    await b.members.step()
    assert await states(api) == {"a": "alive", "b": "alive"}


async def test_what_the_records_say_is_shown(node_api: Api, engines, clock):
    """Shares of the living, and how long ago each was seen to move."""
    a, b, c = engines
    await beat(clock, a, b, c, times=4)
    await a.members.step()
    clock.advance(700)
    nodes = (await node_api.get("/nodes")).data["nodes"]
    assert sum(node["shards"] for node in nodes) == 4096
    assert [node["last_seen_ms"] for node in nodes] == [700] * 3
    assert [node["is_this"] for node in nodes] == [True, False, False]


async def test_the_dead_look_after_nothing(node_api: Api, engines, clock):
    """A dead node has no shards, whatever it wrote down last."""
    a, b, _ = engines
    await beat(clock, a, b, times=4)
    for _ in range(11):
        clock.advance(1_000)
        await a.members.step()
    nodes = (await node_api.get("/nodes")).data["nodes"]
    assert [node["shards"] for node in nodes] == [4096, 0]


async def test_which_shards(node_api: Api, engines, clock):
    """Asked for, they are told as ranges, each shard once."""
    a, b, c = engines
    await beat(clock, a, b, c, times=4)
    nodes = (await node_api.get("/nodes", shards="ranges")).data["nodes"]
    shares = {node["name"]: node["shard_ranges"] for node in nodes}
    assert shares["a"] == ranges(a.members.shards)
    assert shares["b"] == ranges(b.members.shards)
    assert shares["c"] == ranges(c.members.shards)


async def test_a_wrong_parameter(node_api: Api):
    """A parameter that is wrong is refused by its name."""
    answer = await node_api.get("/nodes", shards="all")
    assert answer.status == 400
    assert answer.message.startswith("shards: ")
    assert (await node_api.get("/nodes", shard="1")).status == 400


async def test_the_key_is_needed(node_api: Api):
    """Who runs the service is nobody's business."""
    assert (await node_api.call("GET", "/nodes", key=None)).status == 401


async def test_without_an_engine_nobody_is_known(quick_api: Api):
    """A node without an engine answers with an empty list."""
    assert (await quick_api.get("/nodes", shards="ranges")).data == {"nodes": []}


async def test_the_store_is_not_asked(make_api, store, sender, clock):
    """It answers with what was seen last: whoever asks often must not hold up heartbeats."""
    flaky = FlakyStore(store)
    engine = Engine("a", flaky, sender, clock)
    await engine.members.step()
    flaky.failing = "before"
    answer = await make_api(flaky, engine=engine).get("/nodes")
    assert [node["name"] for node in answer.data["nodes"]] == ["a"]


@pytest.mark.parametrize(
    ("shards", "text"),
    [
        ((), ""),
        ((5,), "5"),
        ((0, 1, 2, 3, 17), "0-3,17"),
        ((9, 1, 8, 3), "1,3,8-9"),
        (range(4096), "0-4095"),
    ],
)
def test_ranges(shards, text):
    """Numbers that follow one another are written as a range."""
    assert ranges(shards) == text
