"""Whatever is sent over NATS is answered in an envelope, and never as a fault of our own."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duetime.api.envelope import encode
from duetime.commands.desk import VERBS, Desk
from duetime.commands.prefixes import prefixes
from duetime.commands.replies import headers_of
from duetime.nats import Message
from duetime.nats.headers import read
from duetime.stores.memory import MemoryStore
from tests.api.client import KEY, timer_body
from tests.api.conftest import MakeApi

NAMES = st.sampled_from(
    ["X-API-Key", "Authorization", "X-Tenant-ID", "If-Match", "Idempotency-Key", "X-Correlation-ID"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["id", "group", "timer_id", "delay", "callback", "name", "tags", "metadata"]
)
BODIES = (
    st.binary()
    | st.dictionaries(FIELDS, JSON).map(lambda body: json.dumps(body).encode())
    | st.dictionaries(FIELDS, JSON).map(lambda body: json.dumps({**timer_body(), **body}).encode())
)


@pytest.mark.slow
@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    verb=st.sampled_from(VERBS),
    tenant=st.text(min_size=1, max_size=8) | st.just("default"),
    headers=st.dictionaries(NAMES, st.text(), max_size=3),
    has_key=st.booleans(),
    trusts=st.sampled_from(["keys", "subjects"]),
    body=BODIES,
)
async def test_anything(make_api: MakeApi, *, verb, tenant, headers, has_key, trusts, body):
    """Any subject, headers and body are answered with a status that is the caller's own doing."""
    api = make_api(MemoryStore())
    desk = Desk(api.service, KEY, trusts=trusts, max_body=1 << 20)
    [prefix] = prefixes("duetime", ())
    subject = f"duetime.{tenant}.timers.{verb}"
    sent: dict[str, Any] = {**headers, **({"X-API-Key": KEY} if has_key else {})}
    answer = await desk.answer(verb, prefix.tenant_of(subject), Message(subject, body, "r", sent))
    assert answer.reply.status in {200, 201, 400, 401, 403, 404, 409, 412, 413}
    assert json.loads(encode(answer.reply)).keys() == {"code", "message", "data"}
    told, _ = read(headers_of(answer.reply))
    assert told["Duetime-Status"] == str(answer.reply.status)
