"""GET /timers, as seeds/002 describes it."""

import pytest

from tests.api.client import Api, timer_body
from tests.api.seed import assert_has

SHORT = {"id", "created_at", "execute_at", "callback_type", "status", "executed_at"}


async def _three(api: Api) -> list[str]:
    """Three timers, in order of creation; their execute_at run the other way."""
    made = []
    for minutes in (30, 20, 10):
        made.append((await api.create(delay=f"{minutes}m"))["id"])
        api.clock.advance(1000)
    return made


def _ids(answer):
    return [timer["id"] for timer in answer.data["timers"]]


async def test_success(api: Api):
    """The seed's request is answered with the page, the total, the limit and the offset."""
    first, second, third = await _three(api)
    answer = await api.get(
        "/timers", status="pending", limit="20", offset="0", sort="execute_at", order="asc"
    )
    assert answer.summary == (200, 0, "success")
    assert_has(answer.data, {"total": 3, "limit": 20, "offset": 0})
    assert _ids(answer) == [third, second, first]
    assert answer.data["timers"][0].keys() >= SHORT
    assert_has(
        answer.data["timers"][2],
        {
            "id": first,
            "created_at": "2025-10-26T10:30:00Z",
            "execute_at": "2025-10-26T11:00:00Z",
            "callback_type": "http",
            "status": "pending",
            "executed_at": None,
        },
    )


async def test_defaults(api: Api):
    """Without parameters: fifty from the start, most recently created first."""
    made = await _three(api)
    answer = await api.get("/timers")
    assert_has(answer.data, {"total": 3, "limit": 50, "offset": 0})
    assert _ids(answer) == made[::-1]


async def test_empty(api: Api):
    """No timers are an empty list, not an error."""
    answer = await api.get("/timers")
    assert answer.status == 200
    assert_has(answer.data, {"timers": [], "total": 0, "limit": 50, "offset": 0})


async def test_details_are_left_out(api: Api):
    """A list has neither callback_config nor metadata."""
    await api.create(metadata={"secret": 1})
    [timer] = (await api.get("/timers")).data["timers"]
    assert not timer.keys() & {"callback_config", "metadata"}


@pytest.mark.parametrize("status", ["pending", "executing", "completed", "failed", "canceled"])
async def test_status(api: Api, status: str):
    """Each status lists exactly the timers that have it."""
    made = {
        each: (await api.bring_to(each))["id"]
        for each in ("pending", "executing", "completed", "failed", "canceled", "paused")
    }
    answer = await api.get("/timers", status=status)
    assert _ids(answer) == [made[status]]
    assert answer.data["total"] == 1


async def test_limit_and_offset(api: Api):
    """Limit and offset cut a page out, and the total counts all."""
    made = await _three(api)
    answer = await api.get("/timers", limit="1", offset="1")
    assert _ids(answer) == [made[1]]
    assert_has(answer.data, {"total": 3, "limit": 1, "offset": 1})


@pytest.mark.parametrize("sort", ["created_at", "execute_at"])
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_sort_and_order(api: Api, sort: str, order: str):
    """Both fields sort in both directions."""
    made = await _three(api)
    is_forward = (sort == "created_at") == (order == "asc")
    answer = await api.get("/timers", sort=sort, order=order)
    assert _ids(answer) == (made if is_forward else made[::-1])


async def test_highest_limit(api: Api):
    """Two hundred is the highest limit: 200 are given, and 201 is refused."""
    batch = {"timers": [timer_body()] * 205}
    assert (await api.post("/timers/batch", batch)).data["failed"] == 0
    answer = await api.get("/timers", limit="200")
    assert len(answer.data["timers"]) == 200
    assert answer.data["total"] == 205
    refused = await api.get("/timers", limit="201")
    assert refused.summary == (400, 2, "limit: must be <= 200")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "done"),
        ("status", "null"),
        ("status", ""),
        ("status", "PENDING"),
        ("limit", "0"),
        ("limit", "-1"),
        ("limit", "many"),
        ("limit", ""),
        ("limit", "9" * 40),
        ("offset", "-1"),
        ("offset", "x"),
        ("offset", "9" * 40),
        ("sort", "status"),
        ("sort", "id; DROP TABLE timers"),
        ("order", "up"),
        ("colour", "red"),
    ],
)
async def test_bad_parameter(quick_api: Api, name: str, value: str):
    """A parameter that is wrong or unknown is 400, and named."""
    answer = await quick_api.get("/timers", **{name: value})
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith(f"{name}: ")
    assert "Expected" not in answer.message
    assert "Invalid enum" not in answer.message
