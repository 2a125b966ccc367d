"""What stores have written is read by later versions, with what these have added left out."""

import msgspec
import pytest

from duetime.stores.codec import decode_outcome, decode_progress, to_json
from duetime.tenancy.group import Group
from duetime.timer import Kind, Outcome, Spec
from tests.factories import make_spec


@pytest.mark.parametrize("kind", list(Kind))
def test_an_outcome_of_before(kind: Kind):
    """One without headers has none that are kept, and is written without them."""
    text = f'{{"kind":"{kind}","status_code":503,"response":"x"}}'
    outcome = decode_outcome(text)
    assert outcome == Outcome(kind=kind, status_code=503, response="x")
    assert outcome.response_headers is None
    assert to_json(outcome) == text
    assert decode_progress(f'{{"outcome":{text}}}').outcome == outcome


def test_a_spec_of_before():
    """Nothing is asked for of the headers of its answers."""
    spec = make_spec(response_bytes=5)
    text = to_json(spec)
    assert "response_headers" not in text
    assert msgspec.json.decode(text, type=Spec).response_headers == ()


def test_a_group_of_before():
    """Nothing is asked of the answers to its timers."""
    text = '{"tenant":"t","name":"g","num_shards":1,"created_at":1,"updated_at":1,"defaults":{}}'
    group = msgspec.json.decode(text, type=Group)
    assert (group.response_schema, group.defaults.response_headers) == (None, ())
