"""When a timer is due: after a delay, or at a time, in its time zone."""

import pytest

from duetime.stores.memory import MemoryStore
from tests.api.client import Api, http_callback, timer_body
from tests.api.conftest import MakeApi


@pytest.mark.parametrize(
    ("delay", "execute_at"),
    [
        ("250ms", "2025-10-26T10:30:00.250Z"),
        ("10s", "2025-10-26T10:30:10Z"),
        ("15m", "2025-10-26T10:45:00Z"),
        ("3d", "2025-10-29T10:30:00Z"),
        ("1h30m", "2025-10-26T12:00:00Z"),
        ("PT15M", "2025-10-26T10:45:00Z"),
        ("0", "2025-10-26T10:30:00Z"),
        ("0s", "2025-10-26T10:30:00Z"),
    ],
)
async def test_delay(quick_api: Api, delay: str, execute_at: str):
    """A delay counts from now; 0 fires at once."""
    assert (await quick_api.create(delay=delay))["execute_at"] == execute_at
    made = await quick_api.create(delay="9h")
    answer = await quick_api.put(f"/timers/{made['id']}", {"delay": delay})
    assert answer.data["execute_at"] == execute_at


@pytest.mark.parametrize("delay", ["", "soon", "-1s", "1", "1 s", "10x", "P", "PT", "1e3s", "1s\n"])
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_bad_delay(quick_api: Api, method: str, delay: str):
    """What is no duration is refused, with examples of what is."""
    made = await quick_api.create()
    path, body = "/timers", timer_body(delay=delay)
    if method == "PUT":
        path, body = f"/timers/{made['id']}", {"delay": delay}
    answer = await quick_api.call(method, path, body)
    expected = 'delay: must be a duration such as "250ms", "10s", "15m", "3d" or "PT15M"'
    assert answer.summary == (400, 2, expected)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"delay": "1h", "execute_at": "2030-01-01T00:00:00Z"},
            "delay: cannot be given together with execute_at",
        ),
        (
            {"execute_at": "2030-01-01T00:00:00"},
            'execute_at: needs an offset such as "Z", or a timezone',
        ),
        (
            {"execute_at": "2030-01-01T00:00:00Z", "timezone": "Europe/Berlin"},
            "timezone: execute_at has an offset already",
        ),
        (
            {"delay": "1h", "timezone": "Europe/Berlin"},
            "timezone: goes with an execute_at that has no offset",
        ),
        (
            {"execute_at": "2030-01-01T00:00:00", "timezone": "Mars/Phobos"},
            "timezone: 'Mars/Phobos' is not a known time zone",
        ),
        (
            {"execute_at": "2030-01-01T00:00:00", "timezone": "../../etc/passwd"},
            "timezone: '../../etc/passwd' is not a known time zone",
        ),
        (
            {"execute_at": "2030-01-01T00:00:00", "timezone": "Europe"},
            "timezone: 'Europe' is not a known time zone",
        ),
        ({"delay": "101y"}, None),
        ({"delay": "40000d"}, "delay: must be at most 100 years"),
        ({"execute_at": "9999-12-31T23:59:59.9995Z"}, "execute_at: out of range"),
        ({"execute_at": "9999-12-31T23:59:59-01:00"}, "execute_at: out of range"),
    ],
)
async def test_when_is_told_once(quick_api: Api, fields: dict[str, str], message: str | None):
    """A time is said in one way, and one that cannot be is refused, naming the field."""
    body = {"callback": http_callback(), **fields}
    answer = await quick_api.post("/timers", body)
    assert (answer.status, answer.code) == (400, 2)
    if message is not None:
        assert answer.message == message


async def test_timezone(quick_api: Api):
    """A time without an offset is read in its time zone."""
    fields = {"execute_at": "2030-07-01T09:00:00", "timezone": "Europe/Berlin"}
    made = await quick_api.create(**fields)
    assert made["execute_at"] == "2030-07-01T07:00:00Z"
    answer = await quick_api.put(
        f"/timers/{made['id']}", fields | {"execute_at": "2030-12-01T09:00:00"}
    )
    assert answer.data["execute_at"] == "2030-12-01T08:00:00Z"


@pytest.mark.promise("never-early")
async def test_fractions_are_rounded_up(quick_api: Api):
    """A fraction of a millisecond is rounded up, so that nothing fires early."""
    made = await quick_api.create(execute_at="2030-01-01T00:00:00.0001Z")
    assert made["execute_at"] == "2030-01-01T00:00:00.001Z"


async def test_min_delay(make_api: MakeApi):
    """A server with MIN_DELAY says how long a delay must be."""
    api = make_api(MemoryStore(), min_delay=5000)
    answer = await api.post("/timers", timer_body(delay="4s"))
    assert answer.summary == (400, 2, "delay: must be at least 5s on this server")
    assert (await api.post("/timers", timer_body(delay="5s"))).status == 201
