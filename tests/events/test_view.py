"""An event as everybody outside sees it."""

import msgspec

from duetime import model
from duetime.events.changes import of_change
from duetime.events.view import encode
from tests.factories import NODE, NOW, make_spec, make_timer


def test_every_field_is_there():
    """Every field is always there, under the names of the API, with the time as text."""
    spec = make_spec(correlation_id="c-1", tags=("one", "two"))
    timer = make_timer(tenant="acme", group="g", timer_id="key", spec=spec)
    event, _ = of_change(timer, model.claim(timer, NODE, NOW + 1, 10_000), None)
    assert msgspec.json.decode(encode(event)) == {
        "id": event.id,
        "type": "due",
        "tenant": "acme",
        "group": "g",
        "timer": timer.id,
        "timer_id": "key",
        "version": 2,
        "occurrence": 1,
        "attempt": 1,
        "time": "2025-06-15T15:06:40.001Z",
        "correlation_id": "c-1",
        "tags": ["one", "two"],
        "data": {"due_at": "2025-06-15T15:07:40Z"},
    }
