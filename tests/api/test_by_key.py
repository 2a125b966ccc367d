"""/groups/{group}/timers/{timer_id}: timers by the users' own keys."""

import asyncio
from urllib.parse import quote

import pytest

from duetime.stores.memory import MemoryStore
from tests.api.client import Api, timer_body
from tests.api.conftest import MakeApi

KEYS = [
    "order-4711",
    "a/b/c",
    "/leading",
    "trailing/",
    "a//b",
    ".",
    "..",
    "../../etc/passwd",
    "käse",
    "日本語",
    "🕰️",
    "with space",
    "100%",
    "%2F",
    "a+b",
    "?query",
    "#fragment",
    "a;b=c",
    "'; DROP TABLE timers; --",
    '"quoted"',
    "\\",
    "\ufffd",
    "e\u0301",
    "x" * 255,
    "字" * 255,
    "null",
]


def path_of(key: str, group: str = "default", safe: str = "") -> str:
    return f"/groups/{group}/timers/{quote(key, safe=safe)}"


@pytest.mark.parametrize("key", KEYS)
async def test_any_key(api: Api, key: str):
    """A key is any printable text; percent-encoded, it comes back as it was."""
    path = path_of(key)
    created = await api.put(path, timer_body())
    assert created.summary == (201, 0, "timer created successfully")
    assert created.data["timer_id"] == key
    found = await api.get(path)
    assert found.summary == (200, 0, "success")
    assert (found.data["id"], found.data["timer_id"]) == (created.data["id"], key)
    assert found.headers["etag"] == '"1"'
    [listed] = (await api.get("/timers")).data["timers"]
    assert listed["timer_id"] == key
    canceled = await api.delete(path)
    assert canceled.data == {"id": created.data["id"], "status": "canceled"}


async def test_slashes_need_no_encoding(api: Api):
    """A slash in a key may be written as it is, or as %2F: it is the same key."""
    made = await api.put(path_of("a/b", safe="/"), timer_body())
    assert (await api.get(path_of("a/b"))).data["id"] == made.data["id"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/groups/default/timers/", "timer_id: must have a length from 1 to 255"),
        (path_of("x" * 256), "timer_id: must have a length from 1 to 255"),
        (path_of("a\0b"), "timer_id: has a character that is not allowed here"),
        (path_of("a\nb"), "timer_id: has a character that is not allowed here"),
        (path_of("a\n"), "timer_id: has a character that is not allowed here"),
        (path_of("\x7f"), "timer_id: has a character that is not allowed here"),
        (path_of("\x85"), "timer_id: has a character that is not allowed here"),
        ("/groups/default/timers/%FF", "path: not valid UTF-8"),
        ("/groups/default/timers/%C3", "path: not valid UTF-8"),
        ("/groups/default/timers/%ED%A0%80", "path: not valid UTF-8"),
        (path_of("x", "a%20b"), "group: must be up to 128 letters, digits, '_' and '-'"),
        (path_of("x", "g" * 129), "group: must be up to 128 letters, digits, '_' and '-'"),
        (path_of("x", "g%0A"), "group: must be up to 128 letters, digits, '_' and '-'"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_bad_key(quick_api: Api, method: str, path: str, message: str):
    """What can be no key is refused, naming the part that is wrong, whatever the method."""
    body = timer_body() if method == "PUT" else None
    assert (await quick_api.call(method, path, body)).summary == (400, 2, message)
    assert (await quick_api.get("/timers")).data["total"] == 0


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_not_found(api: Api, method: str):
    """A key that nobody took is 404."""
    await api.create(timer_id="other")
    await api.create(timer_id="x", group="elsewhere")
    assert (await api.call(method, path_of("x"))).summary == (404, 3, "timer not found")


async def test_put_replaces(api: Api):
    """PUT on a key that is taken gives the timer new content, under the same id."""
    made = await api.put(path_of("x"), timer_body(name="old", metadata=1, tags=["a"]))
    api.clock.advance(1000)
    answer = await api.put(path_of("x"), timer_body(delay="2h", name="new"))
    assert answer.summary == (200, 0, "timer replaced successfully")
    assert answer.data["id"] == made.data["id"]
    assert answer.headers["etag"] == '"2"'
    shown = (await api.get(path_of("x"))).data
    assert (shown["name"], shown["metadata"], shown["tags"]) == ("new", None, [])
    assert shown["created_at"] == made.data["created_at"]
    assert shown["execute_at"] == "2025-10-26T12:30:01Z"
    assert (await api.get("/timers", tag="a")).data["total"] == 0


@pytest.mark.parametrize("status", ["pending", "completed", "failed", "canceled", "paused"])
async def test_put_revives(api: Api, status: str):
    """Whatever came of the old content, the new one waits for its time."""
    await api.bring_to(status, timer_id="x")
    answer = await api.put(path_of("x"), timer_body(name="new"))
    assert answer.status == 200
    shown = (await api.get(path_of("x"))).data
    expected = {"status": "pending", "executed_at": None, "last_error": None, "attempt": 0}
    assert {name: shown[name] for name in expected} == expected


async def test_put_while_executing(api: Api):
    """An attempt that is under way cannot be replaced."""
    await api.bring_to("executing", timer_id="x")
    answer = await api.put(path_of("x"), timer_body())
    assert answer.summary == (400, 2, "cannot replace timer with status 'executing'")


async def test_put_then_post(api: Api):
    """A key that PUT made is known to POST: same content is 200, other content is 409."""
    await api.put(path_of("x"), timer_body(name="n"))
    assert (await api.post("/timers", timer_body(name="n", timer_id="x"))).status == 200
    assert (await api.post("/timers", timer_body(name="m", timer_id="x"))).status == 409


async def test_path_and_body_agree(quick_api: Api):
    """The body may repeat the key, but not name another one."""
    same = timer_body(timer_id="x", group="g")
    assert (await quick_api.put(path_of("x", "g"), same)).status == 201
    other_key = await quick_api.put(path_of("y", "g"), same)
    assert other_key.summary == (400, 2, "timer_id: differs from the one in the path")
    other_group = await quick_api.put(path_of("x", "h"), same)
    assert other_group.summary == (400, 2, "group: differs from the one in the path")


async def test_groups_do_not_share_keys(api: Api):
    """The same timer_id in two groups is two timers."""
    one = await api.put(path_of("x", "one"), timer_body())
    two = await api.put(path_of("x", "two"), timer_body())
    assert (one.status, two.status) == (201, 201)
    await api.delete(path_of("x", "one"))
    assert (await api.get(path_of("x", "two"))).data["status"] == "pending"


async def test_post_refuses_the_same_keys(quick_api: Api):
    """A timer_id in a body obeys the same rules as one in a path."""
    for key, problem in [
        ("", "must have a length >= 1"),
        ("x" * 256, "must have a length <= 255"),
        ("a\n", "has a character that is not allowed here"),
        ("\0", "has a character that is not allowed here"),
    ]:
        answer = await quick_api.post("/timers", timer_body(timer_id=key))
        assert answer.summary == (400, 2, f"timer_id: {problem}")
    answer = await quick_api.post("/timers", timer_body(group="g\n"))
    assert answer.summary == (400, 2, "group: has a character that is not allowed here")


async def test_concurrent_puts(api: Api):
    """PUTs on one key at once all succeed: one creates, and each other one replaces."""
    answers = await asyncio.gather(
        *(api.put(path_of("x"), timer_body(name=f"n{n}")) for n in range(10))
    )
    assert sorted(answer.status for answer in answers) == [200] * 9 + [201]
    assert sorted(answer.data["version"] for answer in answers) == list(range(1, 11))
    last = max(answers, key=lambda answer: answer.data["version"])
    assert (await api.get(path_of("x"))).data["name"] == last.data["name"]


async def test_put_loses_the_race_for_a_key(make_api: MakeApi):
    """A PUT that finds no timer, and loses the key to another before it writes, replaces it."""

    class Late(MemoryStore):
        """Another request takes the key right after the first look."""

        looked = False

        async def get_by_key(self, keys):
            found = await super().get_by_key(keys)
            if not self.looked:
                self.looked = True
                assert (await api.post("/timers", timer_body(timer_id="x", name="a"))).status == 201
            return found

    api = make_api(Late())
    answer = await api.put(path_of("x"), timer_body(name="b"))
    assert (answer.status, answer.data["name"], answer.data["version"]) == (200, "b", 2)
