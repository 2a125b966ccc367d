"""timer_id and Idempotency-Key: a create may be repeated, and a key has one content."""

import asyncio

import pytest

from tests.api.client import Api, timer_body

CONFLICT = "timer_id: 'x' in group 'default' has other content already"


@pytest.mark.promise("one-timer-per-key")
async def test_same_content(api: Api):
    """The same key with the same content is 200 and the existing timer."""
    body = timer_body(timer_id="x", name="n", tags=["a"], metadata={"b": 1, "a": 2})
    made = await api.post("/timers", body)
    api.clock.advance(5000)
    again = await api.post("/timers", body)
    assert again.summary == (200, 0, "timer exists already")
    assert again.data == made.data
    assert again.headers["etag"] == made.headers["etag"]


async def test_order_of_fields_does_not_matter(api: Api):
    """Content is what is said, not how it is written."""
    made = await api.create(timer_id="x", metadata={"a": 1, "b": {"c": 2, "d": 3}})
    reordered = {"metadata": {"b": {"d": 3, "c": 2}, "a": 1}, **timer_body(timer_id="x")}
    assert (await api.post("/timers", reordered)).data["id"] == made["id"]


@pytest.mark.parametrize(
    "other",
    [
        {"delay": "2h"},
        {"name": "other"},
        {"metadata": {"a": 2}},
        {"tags": ["other"]},
        {"callback": {"type": "http", "url": "https://other.example.com/"}},
        {"retry_policy": {"max_attempts": 2}},
        {"deadline": "1m"},
    ],
)
async def test_other_content(api: Api, other: dict):
    """The same key with other content is 409, code 5, and changes nothing."""
    made = await api.create(timer_id="x", metadata={"a": 1})
    answer = await api.post("/timers", timer_body(timer_id="x", metadata={"a": 1}) | other)
    assert answer.summary == (409, 5, CONFLICT)
    assert answer.data is None
    assert (await api.shown(made["id"]))["version"] == 1


async def test_other_correlation_id_is_the_same_content(api: Api):
    """A repeat may well be traced anew."""
    made = await api.create(timer_id="x", correlation_id="one")
    answer = await api.post("/timers", timer_body(timer_id="x", correlation_id="two"))
    assert (answer.status, answer.data["correlation_id"]) == (200, "one")
    assert answer.data["id"] == made["id"]


@pytest.mark.promise("one-timer-per-key")
async def test_repeat_after_its_time(api: Api):
    """A repeat that comes after the timer was due is answered with the timer all the same."""
    made = await api.create(timer_id="x", execute_at="2025-10-26T10:30:01Z")
    api.clock.advance(2000)
    await api.claim(made["id"])
    await api.finish(made["id"])
    again = timer_body(timer_id="x", execute_at="2025-10-26T10:30:01Z")
    answer = await api.post("/timers", again)
    assert (answer.status, answer.data["id"]) == (200, made["id"])
    assert answer.data["status"] == "completed"
    other = await api.post("/timers", again | {"name": "other"})
    assert other.summary == (400, 2, "execute_at must be in the future")
    unknown = await api.post("/timers", again | {"timer_id": "y"})
    assert unknown.summary == (400, 2, "execute_at must be in the future")


async def test_repeat_after_update(api: Api):
    """A repeat still knows the timer that was updated in between."""
    made = await api.create(timer_id="x")
    await api.put(f"/timers/{made['id']}", {"name": "changed"})
    answer = await api.post("/timers", timer_body(timer_id="x"))
    assert (answer.status, answer.data["name"]) == (200, "changed")


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"9" * 5000, b"1e-999"])
async def test_numbers_beyond_any_range(api: Api, number: bytes):
    """A payload is the user's: numbers that no machine holds are kept as written, key or not."""
    body = (
        b'{"delay":"1h","timer_id":"x","callback":{"type":"http","url":"https://example.com/",'
        b'"payload":%s}}'
    )
    first = await api.post("/timers", body % number)
    assert first.status == 201
    assert (await api.post("/timers", body % number)).status == 200
    assert (await api.post("/timers", body % b"1")).status == 409
    assert number in (await api.get(f"/timers/{first.data['id']}")).body


@pytest.mark.promise("one-timer-per-key")
async def test_header(api: Api):
    """Idempotency-Key does the same as timer_id."""
    made = await api.post("/timers", timer_body(), Idempotency_Key="x")
    assert (made.status, made.data["timer_id"]) == (201, "x")
    assert (await api.post("/timers", timer_body(), Idempotency_Key="x")).status == 200
    assert (await api.post("/timers", timer_body(timer_id="x"))).status == 200
    other = await api.post("/timers", timer_body(name="o"), Idempotency_Key="x")
    assert other.summary == (409, 5, CONFLICT)


async def test_header_and_timer_id(quick_api: Api):
    """The header may repeat timer_id, but not contradict it."""
    body = timer_body(timer_id="x")
    assert (await quick_api.post("/timers", body, Idempotency_Key="x")).status == 201
    answer = await quick_api.post("/timers", body, Idempotency_Key="y")
    expected = "Idempotency-Key: differs from timer_id; one of them is enough"
    assert answer.summary == (400, 2, expected)


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "a\x7fb", "."])
async def test_bad_header(quick_api: Api, key: str):
    """A key that is none is refused, naming the header."""
    answer = await quick_api.post("/timers", timer_body(), Idempotency_Key=key)
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith("Idempotency-Key: ")


@pytest.mark.promise("one-timer-per-key")
async def test_concurrent_same_content(api: Api):
    """Of the same create many times at once, one is new and all give the same timer."""
    answers = await asyncio.gather(
        *(api.post("/timers", timer_body(timer_id="x")) for _ in range(20))
    )
    assert sorted(answer.status for answer in answers) == [200] * 19 + [201]
    assert len({answer.data["id"] for answer in answers}) == 1
    assert (await api.get("/timers")).data["total"] == 1


@pytest.mark.promise("one-timer-per-key")
async def test_concurrent_other_content(api: Api):
    """Of creates with one key and different contents at once, one wins and the others are 409."""
    answers = await asyncio.gather(
        *(api.post("/timers", timer_body(timer_id="x", name=f"n{n}")) for n in range(20))
    )
    assert sorted(answer.status for answer in answers) == [201] + [409] * 19
    [winner] = [answer.data["name"] for answer in answers if answer.status == 201]
    [stored] = (await api.get("/timers")).data["timers"]
    assert stored["name"] == winner


async def test_without_key(api: Api):
    """Without a key, the same create twice makes two timers; each has its id for a key."""
    one, two = await api.create(), await api.create()
    assert one["id"] != two["id"]
    assert one["timer_id"] == one["id"]
