"""The API's own description, and the page that shows it."""

import json
import re

import pytest

from duetime.api import app
from duetime.api.operation import Operation
from duetime.stores.memory import MemoryStore
from tests.api.client import Api, http_callback, timer_body
from tests.api.conftest import MakeApi

METHODS = {"get", "post", "put", "delete"}


@pytest.fixture
async def description(quick_api: Api) -> dict:
    answer = await quick_api.call("GET", "/openapi.json", key=None)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    return json.loads(answer.body)


def operations_of(description: dict) -> dict[str, dict]:
    return {
        f"{method.upper()} {path}": operation
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
    }


async def test_every_operation_is_there(description: dict):
    """The description names every path and method, with parameters in braces and no regex."""
    assert set(operations_of(description)) == {
        "POST /timers",
        "GET /timers",
        "POST /timers/batch",
        "GET /timers/{id}",
        "PUT /timers/{id}",
        "DELETE /timers/{id}",
        "POST /timers/{id}/fire",
        "POST /timers/{id}/pause",
        "POST /timers/{id}/resume",
        "POST /timers/{id}/redrive",
        "POST /timers/redrive",
        "GET /timers/{id}/attempts",
        "GET /groups/{group}/timers/{timer_id}",
        "PUT /groups/{group}/timers/{timer_id}",
        "DELETE /groups/{group}/timers/{timer_id}",
        "POST /timers/actions",
        "GET /actions",
        "GET /actions/{action}",
        "DELETE /actions/{action}",
        "POST /groups",
        "GET /groups",
        "GET /groups/{group}",
        "PUT /groups/{group}",
        "DELETE /groups/{group}",
        "POST /groups/{group}/pause",
        "POST /groups/{group}/resume",
        "POST /credentials",
        "GET /credentials",
        "GET /credentials/{credential}",
        "PUT /credentials/{credential}",
        "DELETE /credentials/{credential}",
        "GET /targets",
        "GET /targets/{target}",
        "PUT /targets/{target}",
        "DELETE /targets/{target}",
        "POST /targets/{target}/pause",
        "POST /targets/{target}/resume",
        "POST /tenants",
        "GET /tenants",
        "GET /tenants/{tenant}",
        "PUT /tenants/{tenant}",
        "DELETE /tenants/{tenant}",
        "POST /tenants/{tenant}/keys",
        "GET /tenants/{tenant}/keys",
        "GET /tenants/{tenant}/keys/{key}",
        "DELETE /tenants/{tenant}/keys/{key}",
        "POST /tenants/{tenant}/keys/{key}/rotate",
        "POST /signing-secrets",
        "GET /signing-secrets",
        "DELETE /signing-secrets/{secret}",
        "POST /signing-secrets/{secret}/rotate",
        "POST /secrets/reseal",
        "GET /whoami",
        "GET /usage",
        "GET /audit",
        "GET /audit/export",
        "GET /events",
        "GET /nodes",
        "GET /nodes/{node}",
        "GET /healthz",
        "GET /readyz",
    }


async def test_what_most_come_for_is_first(description: dict):
    """The page at /docs shows operations in this order."""
    assert next(iter(description["paths"])) == "/timers"


async def test_operation_ids_are_distinct(description: dict):
    """Every operation has an id of its own, from which clients can be generated."""
    ids = [operation["operationId"] for operation in operations_of(description).values()]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", each) for each in ids)


async def test_references_lead_somewhere(description: dict):
    """No reference dangles, and no component lies around unused."""
    text = json.dumps(description)
    used = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert used == set(description["components"]["schemas"])


async def test_documented_statuses(description: dict):
    """Every operation documents what it can answer; those with a key, 401; all of them, 413."""
    for name, operation in operations_of(description).items():
        statuses = set(operation["responses"])
        is_public = name in {"GET /healthz", "GET /readyz"}
        assert ("401" in statuses) != is_public, name
        assert (operation.get("security") == []) == is_public, name
        assert "413" in statuses, name


async def test_every_failure_is_an_envelope(description: dict):
    """Every answer is described as the envelope, but for the two that are streams."""
    streams = {"GET /audit/export": "application/x-ndjson", "GET /events": "text/event-stream"}
    for name, operation in operations_of(description).items():
        for status, response in operation["responses"].items():
            if name in streams and status == "200":
                assert set(response["content"]) == {streams[name]}
                continue
            schema = response["content"]["application/json"]["schema"]
            if status.startswith("2"):
                assert schema["properties"]["code"] == {"const": 0}
                assert schema["required"] == ["code", "message", "data"]
            else:
                assert schema == {"$ref": "#/components/schemas/Error"}


async def test_etag_is_described(description: dict):
    """Answers that carry an ETag say so."""
    for name, operation in operations_of(description).items():
        has_etag = ("timers/{" in name and "attempts" not in name) or name == "POST /timers"
        success = min(operation["responses"])
        headers = operation["responses"][success].get("headers", {})
        assert ("ETag" in headers) == has_etag, name


async def test_examples_are_accepted(quick_api: Api, description: dict):
    """The examples in the description are good requests."""
    schemas = description["components"]["schemas"]
    url = schemas["HttpCallbackBody"]["properties"]["url"]["examples"][0]
    group = schemas["CreateTimer"]["properties"]["group"]["examples"][0]
    body = timer_body(callback=http_callback(url=url), group=group)
    assert (await quick_api.post("/timers", body)).status == 201


async def test_it_is_made_once_when_somebody_asks(
    monkeypatch: pytest.MonkeyPatch, make_api: MakeApi
):
    """A node starts without its description, and makes it for the first who wants it."""
    made: list[int] = []

    def counted(operations: list[Operation]) -> dict[str, int]:
        made.append(len(operations))
        return {"operations": len(operations)}

    monkeypatch.setattr(app, "describe", counted)
    api = make_api(MemoryStore())
    assert made == []
    answers = [await api.call("GET", "/openapi.json", key=None) for _ in range(2)]
    assert [json.loads(answer.body) for answer in answers] == [{"operations": made[0]}] * 2
    assert len(made) == 1


async def test_page(quick_api: Api):
    """The page needs no key, and nothing from any other server."""
    answer = await quick_api.call("GET", "/docs", key=None)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = answer.body.decode()
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", page)
    assert "/openapi.json" in page or "openapi.json" in page


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/healthz", "/readyz"])
async def test_head(quick_api: Api, path: str):
    """HEAD is answered like GET; the server leaves the body out."""
    assert (await quick_api.call("HEAD", path, key=None)).status == 200
