"""What is asked over NATS is answered as over HTTP: a table of requests, made both ways."""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from duetime.stores.memory import MemoryStore
from tests.api.client import Api, http_callback, timer_body
from tests.api.conftest import MakeApi
from tests.commands.callers import Served
from tests.commands.conftest import Serve

NO_SUCH = "0190163d-8694-739b-aea5-966c26f8ad91"
_IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


class Asked(NamedTuple):
    """One request, as it is made over NATS and over HTTP. {id} is that of the timer ``t1``."""

    verb: str
    body: Any
    method: str
    path: str
    content: Any = None
    headers: Mapping[str, str] = MappingProxyType({})


def create(headers: dict[str, str] | None = None, **fields: Any) -> Asked:
    body = timer_body(**fields)
    return Asked("create", body, "POST", "/timers", body, headers or {})


def update(headers: dict[str, str] | None = None, **fields: Any) -> Asked:
    return Asked("update", {"id": "{id}", **fields}, "PUT", "/timers/{id}", fields, headers or {})


TABLE = [
    create(),
    create(name="n", tags=["a", "b"], metadata={"k": [1, None]}, group="g", timer_id="t2"),
    create({"X-Correlation-ID": "c"}),
    create({"X-Correlation-ID": "c\td"}),
    create({"Idempotency-Key": "t1"}),
    create({"Idempotency-Key": "t1"}, name="other"),
    create({"Idempotency-Key": "x"}, timer_id="y"),
    create({"Idempotency-Key": ".."}),
    create(timer_id="t1"),
    create(execute_at="2001-01-01T00:00:00Z"),
    create(delay="soon"),
    create(callback=http_callback(url="ftp://example.com")),
    create(callback={"type": "pigeon"}),
    create(colour="red"),
    create(retry_policy={"max_attempts": 0}),
    create(group="no group"),
    Asked("create", [], "POST", "/timers", []),
    Asked("create", b"{", "POST", "/timers", b"{"),
    Asked("create", b"\xff", "POST", "/timers", b"\xff"),
    Asked("get", {"id": "{id}"}, "GET", "/timers/{id}"),
    Asked("get", {"id": NO_SUCH}, "GET", f"/timers/{NO_SUCH}"),
    Asked("get", {"id": "x"}, "GET", "/timers/x"),
    Asked("get", {"group": "default", "timer_id": "t1"}, "GET", "/groups/default/timers/t1"),
    Asked("get", {"group": "g", "timer_id": "t1"}, "GET", "/groups/g/timers/t1"),
    update(name="n"),
    update({"If-Match": '"1"'}, name="n"),
    update({"If-Match": '"9"'}, name="n"),
    update({"If-Match": "soon"}, name="n"),
    update(delay="2h", tags=["x"]),
    update(colour="red"),
    update(execute_at="2001-01-01T00:00:00Z"),
    update(delay="1h", execute_at="2030-01-01T00:00:00Z"),
    Asked("update", {"id": NO_SUCH, "name": "n"}, "PUT", f"/timers/{NO_SUCH}", {"name": "n"}),
    Asked("cancel", {"id": "{id}"}, "DELETE", "/timers/{id}"),
    Asked("cancel", {"id": "{id}"}, "DELETE", "/timers/{id}", None, {"If-Match": '"9"'}),
    Asked("cancel", {"id": NO_SUCH}, "DELETE", f"/timers/{NO_SUCH}"),
    Asked("cancel", {"timer_id": "t1"}, "DELETE", "/groups/default/timers/t1"),
]


def with_id(value: Any, id_: str) -> Any:
    return value if isinstance(value, bytes) else json.loads(json.dumps(value).replace("{id}", id_))


@pytest.mark.parametrize("asked", TABLE, ids=lambda asked: f"{asked.verb}-{asked.path}")
async def test_the_answer_is_the_same(serve: Serve, make_api: MakeApi, asked: Asked):
    """Status, code, message, data and ETag are those of HTTP, but for the ids that are made up."""
    served, other = await serve(), make_api(MemoryStore())
    over_nats = await over(served.api, asked, served)
    over_http = await over(other, asked)
    assert over_nats == over_http


async def over(api: Api, asked: Asked, served: Served | None = None) -> tuple[Any, ...]:
    """What is told apart by nothing but ids."""
    id_ = (await api.create(timer_id="t1"))["id"]
    if served is not None:
        answer = await served.ask(asked.verb, with_id(asked.body, id_), **asked.headers)
    else:
        path, body = asked.path.replace("{id}", id_), asked.content
        answer = await api.call(asked.method, path, body, headers=dict(asked.headers))
    etag = answer.headers.get("etag") or answer.headers.get("ETag")
    return answer.status, _IDS.sub("<id>", answer.body.decode()), etag
