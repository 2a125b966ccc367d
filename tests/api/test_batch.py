"""POST /timers/batch: one answer per timer, and one timer's failure never stops the others."""

import asyncio
import json
from collections import Counter

import pytest

from duetime.shifts import BREATH
from duetime.stores.memory import MemoryStore
from duetime.timer import Callback, HttpCallback
from tests.api.client import Api, http_callback, timer_body
from tests.api.conftest import CheckingSender, MakeApi
from tests.api.gated import GatedStore


async def test_all_are_created(api: Api):
    """Each timer has its own answer, in the order of the request."""
    batch = {"timers": [timer_body(name=f"timer {n}") for n in range(3)]}
    answer = await api.post("/timers/batch", batch)
    assert answer.summary == (200, 0, "batch processed")
    assert (answer.data["created"], answer.data["failed"]) == (3, 0)
    assert [item["data"]["name"] for item in answer.data["timers"]] == [
        "timer 0",
        "timer 1",
        "timer 2",
    ]
    for item in answer.data["timers"]:
        assert (item["code"], item["message"]) == (0, "timer created successfully")
        assert (await api.shown(item["data"]["id"]))["status"] == "pending"


@pytest.mark.promise("bad-input")
async def test_partial_failure(api: Api):
    """Timers that cannot be created are told one by one; the others are created."""
    await api.create(timer_id="taken", name="first")
    batch = {
        "timers": [
            timer_body(name="good"),
            timer_body(callback=http_callback(url="ftp://x/")),
            timer_body(colour="red"),
            "not an object",
            None,
            timer_body(timer_id="taken", name="other"),
            timer_body(timer_id="taken", name="first"),
            timer_body(execute_at="2020-01-01T00:00:00Z"),
            timer_body(timer_id="new"),
            timer_body(timer_id="new"),
            timer_body(timer_id="new", name="other"),
        ]
    }
    answer = await api.post("/timers/batch", batch)
    assert answer.status == 200
    conflict = "timer_id: '{}' in group 'default' has other content already"
    assert [(item["code"], item["message"]) for item in answer.data["timers"]] == [
        (0, "timer created successfully"),
        (2, "callback.url: must be an http or https URL"),
        (2, "colour: unknown field"),
        (2, "body: must be an object, not a string"),
        (2, "body: must be an object, not null"),
        (5, conflict.format("taken")),
        (0, "timer exists already"),
        (2, "execute_at must be in the future"),
        (0, "timer created successfully"),
        (0, "timer exists already"),
        (5, conflict.format("new")),
    ]
    assert [item["data"] is None for item in answer.data["timers"]] == [
        item["code"] != 0 for item in answer.data["timers"]
    ]
    assert (answer.data["created"], answer.data["failed"]) == (2, 7)
    assert (await api.get("/timers")).data["total"] == 3


@pytest.mark.promise("one-timer-per-key")
async def test_repeat(api: Api):
    """A batch of timers with keys that is sent again finds its timers, and makes none."""
    at = "2025-10-26T11:00:00Z"
    batch = {"timers": [timer_body(timer_id=f"key-{n}", execute_at=at) for n in range(3)]}
    first = await api.post("/timers/batch", batch)
    again = await api.post("/timers/batch", batch)
    api.clock.advance(24 * 3_600_000)  # by now, their time has passed
    late = await api.post("/timers/batch", batch)
    ids = [item["data"]["id"] for item in first.data["timers"]]
    for answer in (again, late):
        assert [item["data"]["id"] for item in answer.data["timers"]] == ids
        assert (answer.data["created"], answer.data["failed"]) == (0, 0)
    assert (await api.get("/timers")).data["total"] == 3


async def test_at_most_ten_thousand(quick_api: Api):
    """A batch has at most 10,000 timers; one more, and nothing is created."""
    too_many = {"timers": [timer_body()] * 10_001}
    answer = await quick_api.post("/timers/batch", too_many)
    assert answer.summary == (400, 2, "timers: must have a length <= 10000")
    assert (await quick_api.get("/timers")).data["total"] == 0


@pytest.mark.slow
async def test_ten_thousand(api: Api):
    """Ten thousand timers are one batch."""
    answer = await api.post("/timers/batch", {"timers": [timer_body()] * 10_000})
    assert (answer.data["created"], answer.data["failed"]) == (10_000, 0)
    assert (await api.get("/timers", limit="1")).data["total"] == 10_000


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"timers": []}, "timers: must have a length >= 1"),
        ({}, "timers: required"),
        ({"timers": {}}, "timers: must be an array, not an object"),
        ({"timers": [{}], "atomic": True}, "atomic: unknown field"),
        ([], "body: must be an object, not an array"),
    ],
)
async def test_bad_batch(quick_api: Api, body, message: str):
    """What is no batch at all is refused as a whole, naming the field."""
    answer = await quick_api.post("/timers/batch", body)
    assert answer.summary == (400, 2, message)


async def test_bad_json_in_one_timer(quick_api: Api):
    """JSON that is broken is broken as a whole."""
    good = json.dumps(timer_body()).encode()
    answer = await quick_api.post("/timers/batch", b'{"timers":[%s,{"delay":]}' % good)
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith("body: not valid JSON")
    assert (await quick_api.get("/timers")).data["total"] == 0


async def test_idempotency_key(quick_api: Api):
    """The header cannot be the key of many timers."""
    answer = await quick_api.post("/timers/batch", {"timers": [timer_body()]}, Idempotency_Key="k")
    expected = "Idempotency-Key: give each timer of a batch a timer_id instead"
    assert answer.summary == (400, 2, expected)


async def test_correlation_id(quick_api: Api):
    """X-Correlation-ID goes to every timer that has no correlation_id of its own."""
    batch = {"timers": [timer_body(), timer_body(correlation_id="own")]}
    answer = await quick_api.post("/timers/batch", batch, X_Correlation_ID="from-header")
    shown = [item["data"]["correlation_id"] for item in answer.data["timers"]]
    assert shown == ["from-header", "own"]


async def test_larger_limit(make_api: MakeApi):
    """A batch may be larger than a single request, up to a limit of its own."""
    api = make_api(MemoryStore(), max_body=1024, max_bulk_body=4096)
    batch = {"timers": [timer_body(metadata="x" * 600)] * 2}
    assert (await api.post("/timers/batch", batch)).data["created"] == 2
    too_large = await api.post("/timers/batch", {"timers": batch["timers"] * 3})
    assert too_large.summary == (413, 8, "body: must be at most 4096 bytes")


async def test_a_timer_of_a_batch_may_be_no_larger_than_one_alone(api: Api):
    """It fails alone, with the code of a body that is too large."""
    large = timer_body(metadata="x" * (1 << 20))
    answer = await api.post("/timers/batch", {"timers": [timer_body(), large]})
    assert [item["code"] for item in answer.data["timers"]] == [0, 8]
    assert answer.data["timers"][1]["message"] == "timer: must be at most 1048576 bytes"


async def test_large_batches_reach_the_store_one_after_the_other(
    make_api: MakeApi,
    gated: GatedStore,
    sender: CheckingSender,
    monkeypatch: pytest.MonkeyPatch,
):
    """Or it would have nothing to do until all are checked, and then all of it at once."""
    checked = Counter[str]()
    real = sender.problem

    def problem(callback: Callback) -> str | None:
        assert isinstance(callback, HttpCallback)
        checked[callback.url] += 1
        return real(callback)

    monkeypatch.setattr(sender, "problem", problem)
    api = make_api(gated)
    assert (await api.get("/groups")).status == 200  # which are known from now on
    first, second = (
        asyncio.create_task(
            api.post(
                "/timers/batch",
                {"timers": [timer_body(callback=http_callback(url=url))] * 10 * BREATH},
            )
        )
        for url in ("https://first.example/", "https://second.example/")
    )
    await gated.begun.acquire()
    assert checked["https://first.example/"] == 10 * BREATH
    assert checked["https://second.example/"] <= 2 * BREATH
    gated.gate.set()
    for answer in await asyncio.gather(first, second):
        assert answer.data["created"] == 10 * BREATH
