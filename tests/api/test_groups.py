"""Groups: their shards, their defaults, and who may be in them."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from duetime import ids
from duetime.delivery.schema import compiled
from duetime.stores import Record, Store
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR
from duetime.testing import FlakyStore
from tests.api.client import Api, http_callback, timer_body
from tests.factories import insert, make_timer

POLICY = {
    "max_attempts": 5,
    "initial_interval": "2s",
    "backoff_multiplier": 3.0,
    "max_interval": "1m",
    "max_duration": None,
    "jitter": 0.0,
}
SETTINGS = {
    "title": "Billing",
    "retry_policy": POLICY,
    "timeout": "5s",
    "headers": {"X-Team": "billing", "Authorization": "Bearer t"},
    "retention": "7d",
    "response_bytes": 100,
    "response_headers": ["x-request-id", "retry-after"],
    "response_schema": {"type": "object", "required": ["ok"]},
    "signatures": ["webhook", "timer"],
    "on_resume": "latest",
}


async def test_a_group_is_made_shown_and_changed(api: Api):
    """What is not named stays as it is; null is back to the usual."""
    made = await api.put("/groups/billing", {**SETTINGS, "num_shards": 16})
    assert made.status == 201
    assert {name: made.data[name] for name in SETTINGS} == SETTINGS
    assert (made.data["num_shards"], made.data["is_paused"]) == (16, False)
    changed = await api.put("/groups/billing", {"timeout": None, "on_resume": "all"})
    assert changed.status == 200
    assert changed.data["timeout"] is None
    assert changed.data["headers"] == SETTINGS["headers"]
    assert (await api.get("/groups/billing")).data == changed.data
    assert (await api.post("/groups", {"name": "billing"})).status == 409
    assert (await api.post("/groups", {"name": "other"})).status == 201
    names = [group["name"] for group in (await api.get("/groups")).data["groups"]]
    assert names == ["billing", "default", "other"]


async def test_null_takes_everything_back(api: Api):
    """To what a group has of which nothing was said."""
    await api.put("/groups/usual", {})
    quotas = {"pending": 5}
    await api.put("/groups/billing", {**SETTINGS, "quotas": quotas})
    changed = await api.put("/groups/billing", dict.fromkeys([*SETTINGS, "quotas"]))
    assert changed.status == 200
    usual = (await api.get("/groups/usual")).data
    assert changed.data == usual | {"name": "billing"}
    made = await api.put("/groups/new", dict.fromkeys([*SETTINGS, "quotas"]))
    assert made.data == usual | {"name": "new"}


async def test_a_timer_is_given_what_its_group_says(api: Api):
    """Where it asks for nothing else; its own headers replace those of the same name."""
    await api.put("/groups/billing", SETTINGS)
    timer = await api.create(group="billing")
    shown = await api.shown(timer["id"])
    assert shown["retry_policy"] == POLICY
    assert shown["callback_config"]["timeout"] == "5s"
    assert shown["callback_config"]["headers"] == SETTINGS["headers"]
    given = ("retention", "response_bytes", "response_headers", "signatures")
    assert {name: shown[name] for name in given} == {name: SETTINGS[name] for name in given}
    own = await api.create(
        group="billing",
        retry_policy={"max_attempts": 2},
        callback=http_callback(timeout="30s", headers={"authorization": "mine"}),
    )
    shown = await api.shown(own["id"])
    assert shown["retry_policy"]["max_attempts"] == 2
    assert shown["callback_config"]["timeout"] == "30s"
    assert shown["callback_config"]["headers"] == {"X-Team": "billing", "authorization": "mine"}
    await api.put(f"/timers/{own['id']}", {"callback": http_callback()})
    assert (await api.shown(own["id"]))["callback_config"]["timeout"] == "5s"


async def test_which_headers_of_answers_are_kept(api: Api):
    """Each once, in the order of the request, by its name in lower case."""
    made = await api.put("/groups/g", {"response_headers": ["X-B", "x-a", "X-b"]})
    assert made.data["response_headers"] == ["x-b", "x-a"]
    changed = await api.put("/groups/g", {"response_headers": ["ETag"]})
    assert changed.data["response_headers"] == ["etag"]
    assert (await api.put("/groups/g", {"response_headers": []})).data["response_headers"] == []


async def test_a_schema_is_the_groups_and_not_the_timers(api: Api):
    """It is shown as it was sent, stays with the group, and is not copied into timers."""
    text = '{"type" : "object", "minProperties": 1.0}'
    await api.put("/groups/g", {"response_schema": json.loads(text)})
    timer = await api.create(group="g")
    assert "response_schema" not in await api.shown(timer["id"])
    [stored] = await api.store.get([timer["id"]])
    assert b"minProperties" not in msgspec.json.encode(stored)
    [group] = [each for each in (await api.get("/groups")).data["groups"] if each["name"] == "g"]
    assert group["response_schema"] == json.loads(text)
    changed = await api.put("/groups/g", {"response_schema": None})
    assert changed.data["response_schema"] is None


async def test_a_schema_that_is_refused_changes_nothing(api: Api):
    """Neither itself nor what came with it."""
    await api.put("/groups/g", {"response_schema": {"type": "object"}, "title": "before"})
    bad = {"response_schema": {"$ref": "#"}, "title": "after"}
    refused = await api.put("/groups/g", bad)
    assert refused.summary == (400, 2, "response_schema: must not refer to itself")
    shown = (await api.get("/groups/g")).data
    assert (shown["title"], shown["response_schema"]) == ("before", {"type": "object"})


async def test_a_schema_without_the_package(quick_api: Api, monkeypatch: pytest.MonkeyPatch):
    """Is refused, with what to install; to take one away needs nothing."""
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    compiled.cache_clear()
    refused = await quick_api.put("/groups/g", {"response_schema": {}})
    assert refused.summary == (
        400,
        2,
        "response_schema: needs a package that is not installed: pip install 'duetime[schema]'",
    )
    assert (await quick_api.put("/groups/g", {"response_schema": None})).status == 201


async def test_what_the_group_says_later_is_for_later_timers(api: Api):
    """A timer keeps what it was given, and a repeated create is known by what was asked for."""
    await api.put("/groups/billing", SETTINGS)
    body = timer_body(group="billing", timer_id="k")
    first = (await api.post("/timers", body)).data
    await api.put("/groups/billing", {"timeout": "9s"})
    again = await api.post("/timers", body)
    assert (again.status, again.data["id"]) == (200, first["id"])
    assert (await api.shown(first["id"]))["callback_config"]["timeout"] == "5s"


async def test_a_groups_timers_lie_in_its_shards(api: Api):
    """And are found there by their keys, by every node."""
    await api.put("/groups/small", {"num_shards": 2})
    for number in range(20):
        timer = await api.create(group="small", timer_id=f"k{number}")
        assert ids.shard_of(timer["id"]) < 2
        assert ids.shard_of((await api.create(group="small"))["id"]) < 2
        by_key = await api.get(f"/groups/small/timers/k{number}")
        assert by_key.data["id"] == timer["id"]


async def test_a_group_that_another_node_has_just_made(api: Api, make_api):
    """Is looked for before a key is looked for where it is not."""
    other = make_api(api.store)
    await other.get("/groups")
    await api.put("/groups/small", {"num_shards": 2})
    timer = await api.create(group="small", timer_id="k")
    found = await other.get("/groups/small/timers/k")
    assert (found.status, found.data["id"]) == (200, timer["id"])
    again = await other.post("/timers", timer_body(group="small", timer_id="k"))
    assert (again.status, again.data["id"]) == (200, timer["id"])


async def test_the_number_of_shards_is_for_ever(api: Api):
    """It cannot be changed, not even by deleting the group and making it anew."""
    await api.put("/groups/small", {"num_shards": 2})
    changed = await api.put("/groups/small", {"num_shards": 3})
    assert changed.summary == (400, 2, "num_shards: is 2 for ever in this group")
    assert (await api.put("/groups/small", {"num_shards": 2})).status == 200
    await api.service.groups.delete(OPERATOR, "small")
    assert (await api.get("/groups/small")).status == 404
    anew = await api.put("/groups/small", {"num_shards": 3})
    assert anew.status == 400
    assert "keeps its 2 shards for ever" in anew.message
    assert (await api.put("/groups/small", {})).data["num_shards"] == 2


async def test_timers_that_were_there_before_groups_were(api: Api):
    """A group with timers of an older version gets no other number of shards."""
    await insert(api.store, make_timer(group="old"))
    refused = await api.put("/groups/old", {"num_shards": 2})
    assert refused.status == 400
    assert "there are timers in the group 'old' already" in refused.message
    assert (await api.put("/groups/old", {"title": "Old"})).status == 201


async def test_the_first_timer_makes_its_group(api: Api):
    """With the defaults; in a batch too."""
    await api.create(group="a")
    await api.post("/timers/batch", {"timers": [timer_body(group=name) for name in "abc"]})
    names = [group["name"] for group in (await api.get("/groups")).data["groups"]]
    assert names == ["a", "b", "c", "default"]
    assert [record.name for record in await api.store.records("group")] == [
        "default/a",
        "default/b",
        "default/c",
    ]


async def groups_of(api: Api) -> list[str]:
    """The names of the groups that somebody has made."""
    return [record.name.partition("/")[2] for record in await api.store.records("group")]


REFUSED = [
    {"delay": "nonsense"},
    {"callback": http_callback(url="ftp://example.com/")},
    {"callback": http_callback(payload="12345678901")},
    {"execute_at": "2001-01-01T00:00:00Z"},
]


@pytest.mark.parametrize("fields", REFUSED)
async def test_a_timer_that_is_refused_makes_no_group(api: Api, fields: dict):
    """Whatever is wrong with it, and however it is sent."""
    await api.put("/tenants/default", {"quotas": {"payload_bytes": 12}})
    body = timer_body(group="a", **fields)
    assert (await api.post("/timers", body)).status in {400, 403}
    batch = await api.post("/timers/batch", {"timers": [body, timer_body(group="b")]})
    assert (batch.data["created"], batch.data["failed"]) == (1, 1)
    del body["group"]
    assert (await api.put("/groups/a/timers/k", body)).status in {400, 403}
    assert await groups_of(api) == ["b"]


async def test_a_timer_over_a_quota_makes_no_group(api: Api):
    """Not one by one, not by key, and not a batch with another group for each timer."""
    await api.put("/tenants/default", {"quotas": {"pending": 2}})
    await api.create()
    assert (await api.post("/timers", timer_body(group="made"))).status == 201
    assert (await api.post("/timers", timer_body(group="a"))).status == 429
    assert (await api.put("/groups/a/timers/k", timer_body())).status == 429
    many = [timer_body(), *(timer_body(group=f"g{number}") for number in range(1_100))]
    await api.post("/timers/batch", {"timers": many})
    assert await groups_of(api) == ["made"]


async def test_a_timer_that_is_not_the_version_meant_makes_no_group(api: Api):
    """There is nothing yet that it could replace."""
    assert (await api.put("/groups/a/timers/k", timer_body(), If_Match="1")).status == 412
    assert await groups_of(api) == []
    assert (await api.put("/groups/a/timers/k", timer_body())).status == 201
    assert await groups_of(api) == ["a"]


async def test_a_key_for_other_groups_makes_none(api: Api):
    """It is refused before anything else."""
    key = await api.make_key(role="write", groups=["mine"])
    for method, path in (("POST", "/timers"), ("PUT", "/groups/a/timers/k")):
        body = timer_body(group="a") if method == "POST" else timer_body()
        refused = await api.call(method, path, body, key=key)
        assert refused.summary == (403, 10, "group: this key is not for the group 'a'")
    assert await groups_of(api) == []


async def test_a_batch_makes_each_of_its_groups_once(make_api):
    """With one line of the audit each, and one look for what others may have made."""
    store = FlakyStore(MemoryStore())
    api: Api = make_api(store)
    await api.get("/groups")
    refused = [timer_body(group=f"g{number}", delay="nonsense") for number in range(20)]
    store.calls.clear()
    await api.post("/timers/batch", {"timers": refused})
    assert store.calls == ["records"]
    bodies = [timer_body(group=name) for name in "aabbab"]
    answer = await api.post("/timers/batch", {"timers": [*refused, *bodies]})
    assert answer.data["created"] == 6
    assert await groups_of(api) == ["a", "b"]
    lines = (await api.get("/audit", action="group.create")).data["lines"]
    assert sorted(line["target"] for line in lines) == ["a", "b"]
    assert {line["details"]["by"] for line in lines} == {"its first timer"}


class Interfering:
    """A store in which somebody else makes a group just before this node does."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def put_record(self, old: Record | None, new: Record | None) -> bool:
        if new is not None and new.kind == "group" and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return await self.store.put_record(old, new)


async def post_one(api: Api) -> dict:
    return (await api.post("/timers", timer_body(group="small", timer_id="k"))).data


async def post_batch(api: Api) -> dict:
    bodies = [timer_body(group="small", timer_id="k"), timer_body(group="own")]
    answer = await api.post("/timers/batch", {"timers": bodies})
    assert answer.data["created"] == 2
    return answer.data["timers"][0]["data"]


async def put_by_key(api: Api) -> dict:
    return (await api.put("/groups/small/timers/k", timer_body())).data


@pytest.mark.parametrize("send", [post_one, post_batch, put_by_key])
async def test_a_group_that_another_node_makes_in_the_same_moment(store: Store, make_api, send):
    """The timer is what that group makes of it, and lies where its key is looked for."""
    other: Api = make_api(store)
    between = Interfering(store)
    api: Api = make_api(between)

    async def make_it_otherwise() -> None:
        assert (await other.put("/groups/small", {**SETTINGS, "num_shards": 2})).status == 201

    between.meanwhile = make_it_otherwise
    timer = await send(api)
    shown = await other.get("/groups/small/timers/k")
    assert (shown.status, shown.data["id"]) == (200, timer["id"])
    assert ids.shard_of(timer["id"]) < 2
    assert shown.data["callback_config"]["timeout"] == "5s"
    lines = (await api.get("/audit", action="group.create", target="small")).data["lines"]
    assert len(lines) == 1


@pytest.mark.parametrize("send", [post_one, post_batch, put_by_key])
async def test_a_group_that_was_there_for_a_moment(store: Store, make_api, send):
    """Its name keeps its shards, and the timer is drafted for these."""
    other: Api = make_api(store)
    between = Interfering(store)
    api: Api = make_api(between)

    async def make_and_delete() -> None:
        assert (await other.put("/groups/small", {"num_shards": 2})).status == 201
        assert (await other.delete("/groups/small")).status == 200

    between.meanwhile = make_and_delete
    timer = await send(api)
    assert ids.shard_of(timer["id"]) < 2
    assert (await other.get("/groups/small/timers/k")).data["id"] == timer["id"]


async def test_a_group_with_a_quota_that_another_node_makes_in_the_same_moment(
    store: Store, make_api
):
    """Holds for the timer too."""
    other: Api = make_api(store)
    between = Interfering(store)
    api: Api = make_api(between)

    async def forbid() -> None:
        assert (await other.put("/groups/a", {"quotas": {"pending": 0}})).status == 201

    between.meanwhile = forbid
    assert (await api.post("/timers", timer_body(group="a"))).status == 429


async def test_many_first_timers_at_once(store: Store, make_api):
    """One of them makes the group; the others use no more of a quota for that."""
    api: Api = make_api(store)
    await api.put("/tenants/default", {"quotas": {"creates_per_second": 20}})
    bodies = [timer_body(group="a") for _ in range(20)]
    answers = await asyncio.gather(*(api.post("/timers", body) for body in bodies))
    assert {answer.status for answer in answers} == {201}
    lines = (await api.get("/audit", action="group.create")).data["lines"]
    assert len(lines) == 1


async def test_a_batch_with_more_groups_than_there_may_be(make_api, monkeypatch):
    """Those that find no room are refused by themselves, and take no place in a quota."""
    monkeypatch.setattr("duetime.tenancy.groups.MOST_GROUPS", 2)
    api: Api = make_api(MemoryStore())
    await api.put("/tenants/default", {"quotas": {"pending": 4}})
    bodies = [timer_body(group=name) for name in "abcc"]
    answer = await api.post("/timers/batch", {"timers": bodies})
    assert [item["code"] for item in answer.data["timers"]] == [0, 0, 5, 5]
    statuses = [(await api.post("/timers", timer_body())).status for _ in range(3)]
    assert statuses == [201, 201, 429]
    refused = await api.put("/groups/c/timers/k", timer_body())
    assert refused.status == 429
    await api.put("/tenants/default", {"quotas": None})
    refused = await api.put("/groups/c/timers/k", timer_body())
    assert refused.summary == (409, 5, "group: a tenant has at most 2 groups; delete some")


async def test_or_it_is_refused(make_api):
    """Where the settings say so, a timer needs a group that somebody has made."""
    api: Api = make_api(MemoryStore(), are_groups_made_by_timers=False)
    answer = await api.post("/timers", timer_body(group="a"))
    assert answer.summary == (400, 2, "group: there is no group 'a'; create it first")
    batch = await api.post("/timers/batch", {"timers": [timer_body(group="a"), timer_body()]})
    assert (batch.data["created"], batch.data["failed"]) == (1, 1)
    await api.put("/groups/a", {})
    assert (await api.post("/timers", timer_body(group="a"))).status == 201


async def test_a_tenant_has_so_many_groups(make_api, monkeypatch):
    """Beyond that a timer cannot make another one; what is there goes on."""
    monkeypatch.setattr("duetime.tenancy.groups.MOST_GROUPS", 2)
    api: Api = make_api(MemoryStore())
    for name in "ab":
        await api.create(group=name)
    refused = await api.post("/timers", timer_body(group="c"))
    assert refused.summary == (
        409,
        5,
        "group: a tenant has at most 2 groups; delete some",
    )
    assert (await api.post("/timers", timer_body(group="b"))).status == 201


async def test_the_default_group_needs_no_room(make_api, monkeypatch):
    """It is there without having been made, and can be changed however many others there are."""
    monkeypatch.setattr("duetime.tenancy.groups.MOST_GROUPS", 2)
    api: Api = make_api(MemoryStore())
    for name in "ab":
        assert (await api.put(f"/groups/{name}", {})).status == 201
    assert (await api.post("/groups/default/pause")).data["is_paused"] is True
    assert (await api.put("/groups/c", {})).status == 409


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"num_shards": 0}, "num_shards: must be >= 1"),
        ({"num_shards": 4097}, "num_shards: must be <= 4096"),
        ({"timeout": "0s"}, None),
        ({"timeout": "soon"}, None),
        ({"retention": "0s"}, "retention: must be at least 1s"),
        ({"retention": "999ms"}, "retention: must be at least 1s"),
        ({"retention": "soon"}, None),
        ({"headers": {"Host": "x"}}, None),
        ({"headers": {"a": "b\n"}}, None),
        ({"signatures": ["none"]}, None),
        ({"response_bytes": 16385}, "response_bytes: must be <= 16384"),
        ({"response_headers": ["a"] * 17}, "response_headers: must have a length <= 16"),
        ({"response_headers": ["a b"]}, None),
        ({"response_headers": ["a\n"]}, None),
        ({"response_headers": [""]}, None),
        ({"response_headers": ["x" * 65]}, None),
        ({"response_headers": "x"}, None),
        *[
            (
                {"response_headers": ["ETag", name]},
                f"response_headers: {name} may carry a secret, and is never kept",
            )
            for name in (
                "Set-Cookie",
                "set-cookie2",
                "AUTHORIZATION",
                "WWW-Authenticate",
                "Authentication-Info",
                "Cookie",
                "Proxy-Authenticate",
            )
        ],
        ({"response_schema": []}, "response_schema: must be an object"),
        ({"response_schema": True}, "response_schema: must be an object"),
        ({"response_schema": "{}"}, "response_schema: must be an object"),
        (
            {"response_schema": {"type": "thing"}},
            "response_schema: not a valid JSON Schema: anyOf fails at /type",
        ),
        ({"response_schema": {"$ref": "https://a.example/"}}, None),
        (
            {"response_schema": {"$comment": "x" * 16_384}},
            "response_schema: must be at most 16384 bytes",
        ),
        ({"on_resume": "some"}, "on_resume: 'some' is not one of the known values"),
        ({"retry_policy": {"max_attempts": 0}}, "retry_policy.max_attempts: must be >= 1"),
        ({"paused": True}, "paused: unknown field"),
    ],
)
async def test_bad_groups(quick_api: Api, body: dict, message: str | None):
    """What is wrong is named, by its field, and no group is made."""
    answer = await quick_api.put("/groups/a", body)
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith(next(iter(body)))
    assert message is None or answer.message == message
    assert (await quick_api.get("/groups/a")).status == 404


async def test_two_that_change_a_group_at_once(api: Api, make_api):
    """One of them is told to look again; nothing is lost unseen."""
    other = make_api(api.store)
    await api.put("/groups/a", {"title": "1"})
    await other.get("/groups/a")
    kept = other.service.rules.groups.kept("default/a")
    await api.put("/groups/a", {"title": "2"})
    stale = replace(kept.document, title="3")
    rules = other.service.rules
    assert not await rules.put(rules.groups, "default/a", kept, stale)
    assert (await api.get("/groups/a")).data["title"] == "2"


async def test_the_default_group_has_the_shards_of_the_database(api: Api):
    """Timers are made in it by nodes that never asked for its record."""
    shown = (await api.get("/groups/default")).data["num_shards"]
    refused = await api.put("/groups/default", {"num_shards": shown + 1})
    assert refused.summary == (
        400,
        2,
        f"num_shards: is {shown} in the default group, as in the database",
    )
    assert (await api.put("/groups/default", {"num_shards": shown, "title": "D"})).status == 200


async def test_names_of_groups_are_limited_too(make_api, monkeypatch):
    """Whoever makes and deletes groups for ever leaves names behind."""
    monkeypatch.setattr("duetime.tenancy.groups.MOST_GROUPS", 2)
    monkeypatch.setattr("duetime.tenancy.groups.MOST_NAMES", 4)
    api: Api = make_api(MemoryStore())
    for name in "abc":
        await api.put(f"/groups/{name}", {})
        await api.service.groups.delete(OPERATOR, name)
    assert (await api.put("/groups/a", {})).status == 201
    assert (await api.put("/groups/d", {})).status == 201
    refused = await api.put("/groups/b", {})
    assert refused.message == "group: a tenant has at most 2 groups; delete some"
    await api.service.groups.delete(OPERATOR, "d")
    refused = await api.put("/groups/e", {})
    assert refused.message == "group: a tenant has at most 4 names of groups, ever"
