"""The filters of GET /timers that no store can answer by itself."""

import json

import pytest

from duetime import searching
from duetime.timer import Kind, Outcome
from tests.api.client import Api

DNS = Outcome(kind=Kind.DNS, error="No such host: api.example.com")


def ids_of(answer) -> list[str]:
    assert answer.status == 200, answer
    return [timer["id"] for timer in answer.data["timers"]]


async def found(api: Api, query: str) -> set[str]:
    """The names of the timers that a query finds."""
    answer = await api.call("GET", "/timers", params=query)
    assert answer.status == 200, answer
    return {timer["name"] for timer in answer.data["timers"]}


@pytest.fixture
async def three(api: Api) -> Api:
    """Three timers that differ in everything."""
    await api.create(
        name="Alpha", tags=["red", "round"], metadata={"customer": {"id": 42}, "items": ["x", "y"]}
    )
    beta = await api.create(
        name="Beta", tags=["red", "square"], metadata={"customer": {"id": "42"}, "ok": True}
    )
    await api.post(f"/timers/{beta['id']}/pause")
    gamma = await api.create(name="gamma RAY", group="g", metadata={"n": 1.0, "ok": 1, "z": None})
    await api.claim(gamma["id"])
    await api.finish(gamma["id"], DNS)
    return api


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("status=pending&status=paused", {"Alpha", "Beta"}),
        ("status=failed&status=paused&status=failed", {"Beta", "gamma RAY"}),
        ("tag=red&tag=round", {"Alpha"}),
        ("tag=red&tag=blue", set()),
        ("any_tag=round&any_tag=square", {"Alpha", "Beta"}),
        ("any_tag=round", {"Alpha"}),
        ("tag=red&any_tag=square&any_tag=blue", {"Beta"}),
        ("tag=red&any_tag=square", {"Beta"}),
        ("name_contains=ET", {"Beta"}),
        ("name_contains=a+r", {"gamma RAY"}),
        ("name_contains=%25", set()),
        ("last_error=no+such+HOST", {"gamma RAY"}),
        ("outcome=dns", {"gamma RAY"}),
        ("outcome=ok", set()),
        ("metadata=customer.id=42", {"Alpha"}),
        ("metadata=customer.id=42.0", {"Alpha"}),
        ('metadata=customer.id="42"', {"Beta"}),
        ("metadata=items.1=y", {"Alpha"}),
        ("metadata=items.01=y", set()),
        ("metadata=items.2=y", set()),
        ('metadata=items=["x","y"]', {"Alpha"}),
        ('metadata=customer={"id":42}', {"Alpha"}),
        ("metadata=n=1", {"gamma RAY"}),
        ("metadata=ok=true", {"Beta"}),
        ("metadata=ok=1", {"gamma RAY"}),
        ("metadata=z=null", {"gamma RAY"}),
        ("metadata=nothing=null", set()),
        ("metadata=customer.id=42&metadata=items.0=x", {"Alpha"}),
        ("metadata=a=b=c", set()),
        ("group=g&outcome=dns", {"gamma RAY"}),
        ("group=default&outcome=dns", set()),
    ],
)
async def test_filters(three: Api, query: str, names: set[str]):
    """Each finds what it says, alone and with others."""
    assert await found(three, query) == names


async def test_metadata_that_few_can_read(api: Api):
    """A number beyond any range, and half of a pair of surrogates: JSON allows both."""
    for name, text in (("big", '{"n": 1e999, "a": 1}'), ("half", '{"s": "\\ud800", "a": 1}')):
        body = b'{"delay": "1h", "name": "%s", "metadata": %s, "callback": %s}' % (
            name.encode(),
            text.encode(),
            json.dumps({"type": "http", "url": "https://a.example/"}).encode(),
        )
        assert (await api.call("POST", "/timers", body)).status in {201, 400}
    assert "big" in await found(api, "metadata=a=1")
    assert await found(api, "metadata=n=1") == set()


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("metadata=a", 'metadata: must be a path and a value, such as "customer.id=42"'),
        ("metadata==1", 'metadata: a path is keys joined by dots, such as "customer.id"'),
        ("metadata=.a=1", 'metadata: a path is keys joined by dots, such as "customer.id"'),
        ("metadata=a..b=1", 'metadata: a path is keys joined by dots, such as "customer.id"'),
        ("metadata=", "metadata: must have a length >= 1"),
        ("metadata=" + "a." * 64 + "a=1", "metadata: a path must have at most 64 steps"),
        ("metadata=" + "a" * 513 + "=1", "metadata: a path must have a length <= 512"),
        ("metadata=a=" + "[" * 65 + "]" * 65, "metadata: nested too deeply"),
        ("metadata=a=" + "[" * 2000, "metadata: nested too deeply"),
        ("metadata=a=1e999", "metadata: a number is out of range"),
        ("metadata=a=[1e999]", "metadata: a number is out of range"),
        ('metadata=a="%5Cud800"', "metadata: a value is not valid JSON"),
        ("metadata=a=%ED%A0%80", "query: not valid UTF-8, or too many parameters"),
        ("metadata=a=1&metadata=a=2", "metadata: a path is given twice"),
        ("&".join(f"metadata=a{n}=1" for n in range(17)), "metadata: must have a length <= 16"),
        ("&".join("tag=a" for _ in range(33)), "tag: must have a length <= 32"),
        ("&".join("tag=a" for _ in range(5000)), "query: not valid UTF-8, or too many parameters"),
        ("status=pending&status=x", "status: 'x' is not one of the known values"),
        ("any_tag=", "any_tag: must have a length >= 1"),
        ("name_contains=", "name_contains: must have a length >= 1"),
        ("name_contains=a%00", "name_contains: has a character that is not allowed here"),
        ("last_error=" + "x" * 256, "last_error: must have a length <= 255"),
        ("outcome=none", "outcome: 'none' is not one of the known values"),
        ("group=a&group=b", "query: a parameter is given twice"),
        (
            "outcome=dns&total=true",
            (
                "total: is not known for these filters, which are answered by reading along; leave "
                "it out, or count them by an action with dry_run"
            ),
        ),
    ],
)
async def test_bad_filters(quick_api: Api, query: str, message: str):
    """What makes no sense is 400, and says which parameter."""
    await quick_api.create()
    assert (await quick_api.call("GET", "/timers", params=query)).summary == (400, 2, message)


async def test_huge_numbers_are_compared(quick_api: Api):
    """However many digits an integer has, it is what it is."""
    big = 10**60 + 1
    made = await quick_api.create(metadata={"n": big})
    for value, expected in ((big, [made["id"]]), (big + 1, [])):
        answer = await quick_api.call("GET", "/timers", params=f"metadata=n={value}")
        assert ids_of(answer) == expected
    assert ids_of(await quick_api.call("GET", "/timers", params="metadata=n=NaN")) == []


async def test_total_is_left_out(three: Api):
    """Where it is not known it is null, and no error unless it was asked for."""
    assert (await three.get("/timers", outcome="dns")).data["total"] is None
    assert (await three.get("/timers", outcome="dns", total="false")).data["total"] is None
    assert (await three.get("/timers", any_tag="red")).data["total"] == 2  # a store can say that


async def test_a_search_looks_at_so_many(api: Api, monkeypatch: pytest.MonkeyPatch):
    """Then the page is shorter, and the cursor goes on; nothing is found twice or left out."""
    monkeypatch.setattr(searching, "PAGE", 4)
    monkeypatch.setattr(searching.search, "__kwdefaults__", {"counts": False, "most_seen": 10})
    made = []
    for number in range(35):
        made.append(await api.create(metadata={"n": number % 12}))
        api.clock.advance(1)
    wanted = [timer["id"] for number, timer in enumerate(made) if number % 12 == 5]
    seen, cursor, lengths = [], {}, []
    while True:
        answer = await api.get("/timers", metadata="n=5", limit="2", **cursor)
        seen += ids_of(answer)
        lengths.append(len(ids_of(answer)))
        if answer.data["next_cursor"] is None:
            break
        cursor = {"cursor": answer.data["next_cursor"]}
    assert seen == wanted[::-1]
    assert len(lengths) == 4
    assert min(lengths) < 2
    within = await api.get(
        "/timers", metadata="n=5", offset="1", created_before=made[9]["created_at"]
    )
    assert ids_of(within) == []
    beyond = await api.get("/timers", metadata="n=5", offset="3")
    assert beyond.status == 400
    assert beyond.message.startswith("offset: so many matches were not found among 10 timers")


async def test_offset(api: Api):
    """It leaves out matches, not timers that were looked at."""
    made = []
    for number in range(12):
        made.append((await api.create(metadata={"even": number % 2 == 0}))["id"])
        api.clock.advance(1)
    answer = await api.get("/timers", metadata="even=true", offset="2", limit="3", order="asc")
    assert ids_of(answer) == [made[4], made[6], made[8]]


async def new_key(api: Api, *groups: str) -> str:
    body = {"name": "n", "role": "write", "groups": list(groups) or None}
    answer = await api.post("/tenants/default/keys", body)
    assert answer.status == 201, answer
    return answer.data["key"]


async def test_a_key_sees_its_groups_only(api: Api):
    """For one group, for several, with a group named or not: the others are not there."""
    for group in ("a", "b", "c"):
        await api.create(group=group, name=group, tags=["t"])

    async def names(key: str, query: str = "") -> set[str]:
        answer = await api.call("GET", "/timers", params=query, key=key)
        assert answer.status == 200, answer
        return {timer["name"] for timer in answer.data["timers"]}

    one, two = await new_key(api, "a"), await new_key(api, "a", "b")
    assert await names(one) == {"a"}
    assert await names(two) == {"a", "b"}
    assert await names(two, "tag=t&status=pending") == {"a", "b"}
    assert await names(two, "group=b") == {"b"}
    assert await names(two, "group=c") == set()
    assert await names(one, "group=b&total=true") == set()
    answer = await api.call("GET", "/timers", params="group=c&total=true", key=one)
    assert answer.data["total"] == 0


async def test_lists_are_described(quick_api: Api):
    """Parameters that may be repeated are arrays, given once for each."""
    answer = await quick_api.call("GET", "/openapi.json", key=None)
    parameters = json.loads(answer.body)["paths"]["/timers"]["get"]["parameters"]
    arrays = {each["name"]: each for each in parameters if each["schema"].get("type") == "array"}
    assert set(arrays) == {"status", "tag", "any_tag", "metadata"}
    assert all((each["style"], each["explode"]) == ("form", True) for each in arrays.values())
