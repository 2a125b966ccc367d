"""What the API shows of a timer's settings, and that its client knows every field."""

import json

import msgspec
import pytest

from duetime.api.views import AttemptView, OutcomeView, TimerDetailView, detail_view
from duetime.client import types
from tests.api.client import Api
from tests.factories import make_spec, make_timer


async def test_usual_settings(api: Api):
    """A timer that nobody gave any keeps nothing of answers, and is signed as usual."""
    shown = await api.shown((await api.create())["id"])
    assert (shown["retention"], shown["response_bytes"]) == (None, 0)
    assert shown["signatures"] == ["webhook"]


def test_settings_of_its_own():
    """What a timer was given is shown, durations as text."""
    spec = make_spec(
        retention=5_400_000,
        response_bytes=1024,
        response_headers=("etag",),
        signatures=("timer", "webhook"),
    )
    shown = msgspec.to_builtins(detail_view(make_timer(spec=spec)))
    assert (shown["retention"], shown["response_bytes"]) == ("1h30m", 1024)
    assert shown["signatures"] == ("timer", "webhook")


@pytest.mark.parametrize(
    ("view", "known"),
    [
        (OutcomeView, types.Outcome),
        (AttemptView, types.Attempt),
        (TimerDetailView, types.Timer),
    ],
)
def test_the_client_knows_every_field(view: type[msgspec.Struct], known: type):
    """What the API shows has a type in the client, and nothing else has."""
    assert set(known.__annotations__) == set(view.__struct_fields__)


async def test_fields_are_described(quick_api: Api):
    """The description says what is kept of answers, and which signatures there are."""
    answer = await quick_api.call("GET", "/openapi.json", key=None)
    schemas = json.loads(answer.body)["components"]["schemas"]
    for name in ("OutcomeView", "AttemptView"):
        assert "UTF-8" in schemas[name]["properties"]["response"]["description"]
    detail = schemas["TimerDetailView"]["properties"]
    assert detail["signatures"]["items"] == {"enum": ["timer", "webhook"]}
    assert all(detail[name]["description"] for name in ("retention", "response_bytes"))
