"""The filters and pages of GET /timers that go beyond the seed."""

import pytest

from tests.api.client import Api

FILTERS = {
    "status": "paused",
    "group": "billing",
    "tag": "urgent",
    "name_prefix": "remind",
    "correlation_id": "order-1",
    "created_after": "2025-10-26T10:30:10Z",
    "created_before": "2025-10-26T10:30:20Z",
    "execute_after": "2025-10-26T12:00:00Z",
    "execute_before": "2025-10-26T13:00:00Z",
}


def ids_of(answer) -> list[str]:
    return [timer["id"] for timer in answer.data["timers"]]


async def _wanted(api: Api) -> str:
    """A timer that every filter finds."""
    api.clock.advance(15_000)
    made = await api.bring_to(
        "paused",
        group="billing",
        tags=["urgent", "paid"],
        name="remind me",
        correlation_id="order-1",
        execute_at="2025-10-26T12:30:00Z",
    )
    return made["id"]


async def _unwanted(api: Api) -> None:
    """Timers that no filter finds, made before and after."""
    for _ in range(2):
        await api.create(
            group="other", tags=["later"], name="forget", execute_at="2025-10-26T11:00:00Z"
        )
        await api.create(execute_at="2025-10-26T13:00:00Z", name="Remind", tags=["Urgent"])
        api.clock.advance(25_000)


@pytest.fixture
async def wanted(api: Api) -> str:
    await _unwanted_before(api)
    id_ = await _wanted(api)
    api.clock.advance(10_000)
    await _unwanted(api)
    return id_


async def _unwanted_before(api: Api) -> None:
    await api.create(group="Billing", name="a remind", execute_at="2025-10-26T11:59:59.999Z")


@pytest.mark.parametrize("name", FILTERS)
async def test_alone(api: Api, wanted: str, name: str):
    """Each filter by itself finds what it names; name_prefix and the rest mind the case."""
    answer = await api.get("/timers", **{name: FILTERS[name]})
    if name in {"created_after", "created_before", "execute_after", "execute_before"}:
        assert wanted in ids_of(answer)
        assert answer.data["total"] == len(ids_of(answer)) < 6
    else:
        assert ids_of(answer) == [wanted]
        assert answer.data["total"] == 1


@pytest.mark.parametrize("one", FILTERS)
@pytest.mark.parametrize("other", FILTERS)
async def test_two_together(quick_api: Api, one: str, other: str):
    """Filters are joined by and: one that does not match hides the timer."""
    id_ = await _wanted(quick_api)
    both = {one: FILTERS[one], other: FILTERS[other]}
    assert ids_of(await quick_api.get("/timers", **both)) == [id_]
    miss = {
        "status": "pending",
        "group": "other",
        "tag": "no",
        "name_prefix": "x",
        "correlation_id": "no",
        "created_after": "2026-01-01T00:00:00Z",
        "created_before": "2025-01-01T00:00:00Z",
        "execute_after": "2026-01-01T00:00:00Z",
        "execute_before": "2025-01-01T00:00:00Z",
    }
    if one != other:
        answer = await quick_api.get("/timers", **both | {other: miss[other]})
        assert (ids_of(answer), answer.data["total"]) == ([], 0)


async def test_all_together(api: Api, wanted: str):
    """All filters at once still find what all of them match."""
    answer = await api.get("/timers", **FILTERS, sort="execute_at", order="asc")
    assert (ids_of(answer), answer.data["total"]) == ([wanted], 1)


async def test_times_are_half_open(api: Api):
    """A range has its beginning, not its end, so that ranges side by side overlap nowhere."""
    made = await api.create(execute_at="2025-10-26T12:00:00.500Z")
    for field, at in (
        ("created", "2025-10-26T10:30:00Z"),
        ("execute", "2025-10-26T12:00:00.500Z"),
    ):
        assert ids_of(await api.get("/timers", **{f"{field}_after": at})) == [made["id"]]
        assert ids_of(await api.get("/timers", **{f"{field}_before": at})) == []


async def test_every_tag_finds(api: Api):
    """A timer is found by each of its tags; the same tag twice is one tag."""
    made = await api.create(tags=["a", "b", "a"])
    assert made["tags"] == ["a", "b"]
    for tag in ("a", "b"):
        assert ids_of(await api.get("/timers", tag=tag)) == [made["id"]]


async def test_tags_follow_updates(api: Api):
    """Tags that were taken away find the timer no more."""
    made = await api.create(tags=["a", "b"])
    await api.put(f"/timers/{made['id']}", {"tags": ["b", "c"]})
    found = [len(ids_of(await api.get("/timers", tag=tag))) for tag in ("a", "b", "c")]
    assert found == [0, 1, 1]


@pytest.mark.parametrize("prefix", ["%", "_", "a%", "a_b", "'", "*", "\\", "[", "\U0010ffff", "ÿ"])
async def test_prefix_has_no_wildcards(api: Api, prefix: str):
    """What means something to a database is plain text in a prefix."""
    made = await api.create(name=prefix + "tail")
    await api.create(name="other")
    await api.create(name="axb")
    assert ids_of(await api.get("/timers", name_prefix=prefix)) == [made["id"]]


@pytest.mark.parametrize("text", ["' OR 1=1 --", '"; DROP TABLE timers; --', "a' UNION SELECT 1"])
@pytest.mark.parametrize("name", ["tag", "name_prefix", "correlation_id"])
async def test_sql_is_text(api: Api, name: str, text: str):
    """SQL in a filter finds what has that text, and harms nothing."""
    await api.create()
    made = await api.create(tags=[text], name=text, correlation_id=text)
    assert ids_of(await api.get("/timers", **{name: text})) == [made["id"]]
    assert (await api.get("/timers")).data["total"] == 2


@pytest.mark.parametrize("sort", ["created_at", "execute_at"])
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_cursor(api: Api, sort: str, order: str):
    """Pages by cursor give every timer once, in order, also where many have the same time."""
    made = set()
    for number in range(11):
        made.add((await api.create(delay=f"{number // 4}h"))["id"])
        if number % 3 == 0:
            api.clock.advance(1)
    whole = ids_of(await api.get("/timers", sort=sort, order=order))
    seen, cursor = [], {}
    for page in range(4):
        answer = await api.get("/timers", sort=sort, order=order, limit="3", **cursor)
        assert (answer.data["total"] is None) == (page > 0)
        seen += ids_of(answer)
        cursor = {"cursor": answer.data["next_cursor"]}
    assert cursor == {"cursor": None}
    assert seen == whole
    assert set(seen) == made


async def test_cursor_while_timers_are_added(api: Api):
    """Timers that come in between pages neither repeat nor hide those that were there."""
    there = []
    for _ in range(6):
        there.append((await api.create())["id"])
        api.clock.advance(1)
    newest_first = await api.get("/timers", limit="2")
    await api.create()
    second = await api.get("/timers", limit="2", cursor=newest_first.data["next_cursor"])
    await api.create()
    third = await api.get("/timers", limit="2", cursor=second.data["next_cursor"])
    assert ids_of(newest_first) + ids_of(second) + ids_of(third) == there[::-1]
    # By offset, the same pages would have shifted.
    assert there[4] in ids_of(await api.get("/timers", limit="2", offset="2"))


async def test_cursor_keeps_the_filters(api: Api):
    """A cursor works together with filters."""
    for number in range(4):
        await api.create(tags=["even"] if number % 2 == 0 else [])
        api.clock.advance(1)
    first = await api.get("/timers", tag="even", limit="1")
    second = await api.get("/timers", tag="even", limit="1", cursor=first.data["next_cursor"])
    third = await api.get("/timers", tag="even", limit="1", cursor=second.data["next_cursor"])
    assert [len(ids_of(page)) for page in (first, second, third)] == [1, 1, 0]
    assert ids_of(first) != ids_of(second)


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "nonsense",
        "!!!",
        "äöü",
        "W10",  # []
        "WzEsMl0",  # [1,2]
        "WyJhIiwiYiJd",  # ["a","b"]
        "WzFlOTk5LCJhIl0",  # [1e999,"a"]
        "Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OTksImEiXQ",  # [99999999999999999999999,"a"]
        "Wy05OTk5OTk5OTk5OTk5OTk5OTk5OTksImEiXQ",  # [-99999999999999999999999,"a"]
        "a" * 1025,
    ],
)
async def test_bad_cursor(api: Api, cursor: str):
    """What this list did not give out is 400, naming the cursor."""
    await api.create()
    answer = await api.get("/timers", cursor=cursor)
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith("cursor: ")


async def test_cursor_and_offset(quick_api: Api):
    """A cursor and an offset exclude each other."""
    answer = await quick_api.get("/timers", cursor="WzEsImEiXQ", offset="1")
    assert answer.summary == (400, 2, "offset: cannot be given together with cursor")


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=1&limit=2", "query: a parameter is given twice"),
        ("tag=%FF", "query: not valid UTF-8, or too many parameters"),
        ("&".join(f"p{n}=1" for n in range(65)), "query: not valid UTF-8, or too many parameters"),
        ("tag=a%00b", "tag: has a character that is not allowed here"),
        ("tag=a%0A", "tag: has a character that is not allowed here"),
        ("group=a%20b", "group: has a character that is not allowed here"),
        ("group=", "group: must have a length >= 1"),
        ("tag=" + "x" * 129, "tag: must have a length <= 128"),
        ("created_after=x", 'created_after: must be a time such as "2030-01-01T09:00:00Z"'),
        (
            "execute_before=2030-01-01T00:00:00",
            'execute_before: needs an offset such as "Z"',
        ),
        ("created_before=9999-12-31T23:59:59.9999Z", "created_before: out of range"),
        ("Status=pending", "Status: unknown parameter"),
    ],
)
async def test_bad_query(quick_api: Api, query: str, message: str):
    """A query that cannot be answered is 400, and says which part of it."""
    assert (await quick_api.call("GET", "/timers", params=query)).summary == (400, 2, message)


async def test_a_cursor_is_good_for_the_order_that_it_came_from(quick_api: Api):
    """Used with another sort or order, it would skip or repeat timers: it is refused."""
    for _ in range(3):
        await quick_api.create()
    cursor = (await quick_api.get("/timers", limit="2")).data["next_cursor"]
    for other in ({"sort": "execute_at"}, {"order": "asc"}):
        answer = await quick_api.get("/timers", limit="2", cursor=cursor, **other)
        assert answer.summary == (400, 2, "cursor: belongs to a list with another sort or order")
