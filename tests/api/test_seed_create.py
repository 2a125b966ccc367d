"""POST /timers, as seeds/002 describes it."""

import re
from typing import Any

import pytest

from duetime.stores.memory import MemoryStore
from tests.api.client import Api
from tests.api.conftest import MakeApi
from tests.api.seed import HTTP, NATS, assert_has


def _http(**fields: Any) -> dict[str, Any]:
    return HTTP | {"callback": HTTP["callback"] | fields}


def _without(body: dict[str, Any], field: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != field}


async def test_success(api: Api):
    """The seed's HTTP body is answered with 201 and every field of the seed's answer."""
    answer = await api.post("/timers", HTTP, Content_Type="application/json")
    assert answer.summary == (201, 0, "timer created successfully")
    assert_has(
        answer.data,
        {
            "created_at": "2025-10-26T10:30:00Z",
            "execute_at": "2025-10-26T15:30:00Z",
            "callback_type": "http",
            "status": "pending",
            "executed_at": None,
        },
    )


async def test_id_is_a_uuid_version_7(quick_api: Api):
    """Ids are UUIDv7, so that they sort by time."""
    answer = await quick_api.post("/timers", HTTP)
    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", answer.data["id"]
    )
    quick_api.clock.advance(1)
    later = await quick_api.post("/timers", HTTP)
    assert later.data["id"] > answer.data["id"]


async def test_is_stored_as_sent(api: Api):
    """What was sent is what is stored: callback, headers, payload, metadata."""
    made = await api.post("/timers", HTTP)
    shown = await api.shown(made.data["id"])
    assert_has(shown["callback_config"], HTTP["callback"])
    assert shown["metadata"] == HTTP["metadata"]


async def test_nats_is_refused_where_it_is_not_configured(quick_api: Api):
    """Without a NATS server, a NATS callback fails validation at creation, naming the field."""
    answer = await quick_api.post("/timers", NATS)
    expected = "callback.type: nats is not configured on this server; whoever runs it sets NATS_URL"
    assert answer.summary == (400, 2, expected)
    assert answer.data is None


@pytest.mark.parametrize("execute_at", ["2025-10-26T10:29:59Z", "2024-01-01T00:00:00Z"])
async def test_in_the_past(quick_api: Api, execute_at: str):
    """A time in the past is refused in the seed's words, with data null."""
    answer = await quick_api.post("/timers", HTTP | {"execute_at": execute_at})
    assert answer.status == 400
    assert answer.envelope == {
        "code": 2,
        "message": "execute_at must be in the future",
        "data": None,
    }


async def test_five_seconds_ahead(make_api: MakeApi):
    """With MIN_DELAY=5s, a timer must be five seconds ahead, as in the seed."""
    api = make_api(MemoryStore(), min_delay=5000)
    early = await api.post("/timers", HTTP | {"execute_at": "2025-10-26T10:30:04.999Z"})
    assert early.summary == (400, 2, "execute_at must be in the future")
    assert (await api.post("/timers", HTTP | {"execute_at": "2025-10-26T10:30:05Z"})).status == 201


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (_without(HTTP, "execute_at"), "execute_at: required, or delay"),
        (_without(HTTP, "callback"), "callback: required"),
        (HTTP | {"callback": _without(HTTP["callback"], "type")}, "callback.type: required"),
        (HTTP | {"callback": _without(HTTP["callback"], "url")}, "callback.url: required"),
        (_http(type="smtp"), "callback.type: 'smtp' is not one of the known values"),
        (NATS | {"callback": _without(NATS["callback"], "topic")}, "callback.topic: required"),
        (
            NATS | {"callback": NATS["callback"] | {"topic": ""}},
            "callback.topic: must have a length >= 1",
        ),
        (_http(url="ftp://example.com/"), "callback.url: must be an http or https URL"),
        (_http(url="not a url"), "callback.url: must be an http or https URL"),
        (_http(url=""), "callback.url: must be an http or https URL"),
        (
            _http(headers={"a b": "x"}),
            "callback.headers: 'a b' is not a valid header name",
        ),
        (_http(headers=["a"]), "callback.headers: must be an object or null, not an array"),
    ],
)
async def test_field_validations(quick_api: Api, body: dict[str, Any], message: str):
    """Each of the seed's rules on fields is kept, and the message names the field."""
    answer = await quick_api.post("/timers", body)
    assert answer.summary == (400, 2, message)


@pytest.mark.parametrize(
    "execute_at", ["soon", "26.10.2025", "2025-10-26", "1761474600", "", "2025-10-26T25:00:00Z"]
)
async def test_execute_at_is_iso_8601(quick_api: Api, execute_at: str):
    """What is no time is refused, naming execute_at."""
    answer = await quick_api.post("/timers", HTTP | {"execute_at": execute_at})
    assert (answer.status, answer.code) == (400, 2)
    assert answer.message.startswith("execute_at: ")


@pytest.mark.parametrize("field", ["headers", "payload"])
async def test_optional_in_callback(quick_api: Api, field: str):
    """Headers and payload may be left out."""
    body = HTTP | {"callback": _without(HTTP["callback"], field)}
    assert (await quick_api.post("/timers", body)).status == 201


async def test_metadata_is_optional(quick_api: Api):
    """Without metadata there is none, and that is shown as null."""
    made = await quick_api.post("/timers", _without(HTTP, "metadata"))
    assert (await quick_api.shown(made.data["id"]))["metadata"] is None


@pytest.mark.parametrize("value", [{"a": [1, {}]}, [1, 2], "text", 7, 1.5, True, False, [], {}, ""])
@pytest.mark.parametrize("field", ["payload", "metadata"])
async def test_any_json_value(api: Api, field: str, value: Any):
    """Payload and metadata are any JSON value, and come back as they were sent."""
    body = _http(payload=value) if field == "payload" else HTTP | {"metadata": value}
    made = await api.post("/timers", body)
    shown = await api.shown(made.data["id"])
    stored = shown["callback_config"]["payload"] if field == "payload" else shown["metadata"]
    assert stored == value
    assert type(stored) is type(value)


async def test_no_limit_to_how_far_ahead(api: Api):
    """There is no limit to how far ahead a timer may be, up to the last year that there is."""
    answer = await api.post("/timers", HTTP | {"execute_at": "9999-12-31T23:59:59.999Z"})
    assert answer.data["execute_at"] == "9999-12-31T23:59:59.999Z"


async def test_offset_is_turned_into_utc(quick_api: Api):
    """A time with another offset is the same moment in UTC."""
    answer = await quick_api.post("/timers", HTTP | {"execute_at": "2025-10-26T17:30:00+02:00"})
    assert answer.data["execute_at"] == "2025-10-26T15:30:00Z"
