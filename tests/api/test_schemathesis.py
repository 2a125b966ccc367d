"""The served API against its own description: no server error, and no answer that is not there.

Requests are generated from /openapi.json, good ones and bad ones, and go over a real socket. They
are the same in every run.
"""

import asyncio
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, unquote
from urllib.request import Request, urlopen

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig
from schemathesis.generation.feedback import NO_FEEDBACK
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from duetime.api.app import create_app
from duetime.api.server import ApiServer, listen
from duetime.clock import SystemClock
from duetime.delivery.egress import Egress
from duetime.delivery.http import HttpSender
from duetime.service import Service
from duetime.stores.memory import MemoryStore
from duetime.testing import FakeClock, RecordingSender
from duetime.vault import Vault
from tests.api.client import KEY, call_app, timer_body

pytestmark = pytest.mark.slow

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


def description() -> dict[str, Any]:
    """What the app says of itself; only then is it known which tests there are."""
    app = create_app(Service(MemoryStore(), RecordingSender(), FakeClock()), KEY)
    return asyncio.run(call_app(app, "GET", "/openapi.json")).envelope


DESCRIPTION = description()
OPERATIONS = [
    f"{method.upper()} {path}" for path, item in DESCRIPTION["paths"].items() for method in item
]


def with_each_request(
    check: Callable[..., None], url: str, operation: str, *modes: GenerationMode
) -> None:
    """Have a check made with every request of these modes that is generated for one operation.

    Schemathesis itself would make the requests of all operations while tests are collected, which
    takes seconds, in every process of a run. So it is asked for them when a test begins.
    """
    generation = GenerationConfig(
        modes=list(modes), deterministic=True, with_security_parameters=False
    )
    projects = ProjectsConfig(default=ProjectConfig(generation=generation))
    schema = schemathesis.openapi.from_dict(
        DESCRIPTION, config=SchemathesisConfig(projects=projects)
    )
    [described] = schema.include(name=operation).get_all_operations()
    made = build_operation_test(
        config=schema.config,
        operation=described.ok(),
        test_func=check,
        given_kwargs={},
        feedback=NO_FEEDBACK,
    )
    made(url=url)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The API on a socket, in a thread with an event loop of its own."""
    started = threading.Event()
    listener = listen("127.0.0.1", 0)
    servers: list[ApiServer] = []

    async def serve() -> None:
        clock = SystemClock()
        sender = HttpSender(clock, Egress.parse(""))
        service = Service(MemoryStore(), sender, clock, vault=Vault([bytes(32)]))
        server = ApiServer(create_app(service, KEY), drain_for=1)
        servers.append(server)
        working = asyncio.create_task(keep_working(service))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await server.is_listening.wait()
        started.set()
        await serving
        working.cancel()
        await sender.close()

    host, port = listener.getsockname()
    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert started.wait(10)
    yield f"http://{host}:{port}"
    servers[0].should_exit = True
    thread.join(10)
    assert not thread.is_alive()


async def keep_working(service: Service) -> None:
    """Work on actions, as a node does."""
    while True:
        await asyncio.sleep(min(await service.actions.step(), 0.02))
        service.actions._clerk.look_soon()


@pytest.mark.promise("bad-input")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_conforms(operation: str, url: str):
    """Whatever is asked, the answer is one that the description has for it."""

    @settings(
        max_examples=15,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(case: schemathesis.Case, url: str) -> None:
        checks = CHECKS
        if operation == "POST /timers/batch":
            # What is wrong with one timer of a batch is told in its own answer, within a 200.
            checks = [check for check in CHECKS if check is not negative_data_rejection]
        case.call_and_validate(url, headers={"X-API-Key": KEY}, checks=checks, timeout=10)

    with_each_request(check, url, operation, GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_success_conforms(operation: str, url: str):
    """Requests that can be granted, on timers that exist, are answered as described too."""

    @settings(
        max_examples=8,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(case: schemathesis.Case, url: str) -> None:
        make_grantable(case, url)
        answer = case.call_and_validate(url, headers={"X-API-Key": KEY}, checks=CHECKS, timeout=10)
        allowed = {200, 201, 202}
        if operation == "POST /timers" and "timer_id" in case.body:
            allowed.add(409)  # a key that was generated before has another timer by now
        if operation == "DELETE /actions/{action}":
            allowed.add(409)  # it was done already
        if operation == "GET /nodes/{node}":
            allowed.add(404)  # this one has no engine, and thus knows of no node
        if operation == "POST /timers/{id}/redrive":
            allowed.add(400)  # without an engine, no timer ever fails
        if operation == "GET /events":
            allowed.add(409)  # it would have no end; here no events are kept
        assert answer.status_code in allowed, answer.text

    # Of good ones every operation has some, or its test fails: bad ones could not be granted.
    with_each_request(check, url, operation, GenerationMode.POSITIVE)


def make_grantable(case: schemathesis.Case, url: str) -> None:
    """Point a generated request at a timer that exists, and give it a time and a URL.

    The description cannot say which texts are durations, times or URLs; the rest stays random.
    """
    for name in ("If-Match", "Idempotency-Key", "Last-Event-ID", "X-Tenant-ID"):
        case.headers.pop(name, None)
    unfit = ("after", "before", "cursor", "last_event_id", "metadata", "total")
    for name in [name for name in case.query if name.endswith(unfit)]:
        del case.query[name]
    if case.operation.label == "POST /timers/batch":
        case.body = {"timers": [grantable(timer) for timer in case.body["timers"]]}
    elif case.operation.label in ADAPTED:
        case.body = ADAPTED[case.operation.label](case.body)
    elif isinstance(case.body, dict):
        case.body = grantable(case.body)
    make_what_is_named(case, url)
    make_the_timer(case, url)


def make_the_timer(case: schemathesis.Case, url: str) -> None:
    """See to it that the timer of a request exists."""
    parameters = case.path_parameters
    if "timer_id" in parameters and isinstance(case.body, dict):
        for name in ("timer_id", "group"):  # they are in the path
            case.body.pop(name, None)
    if "id" in parameters:
        parameters["id"] = ask("POST", f"{url}/timers")["data"]["id"]
        if case.operation.label.endswith("/resume"):
            ask("POST", f"{url}/timers/{parameters['id']}/pause", {})
    if "timer_id" in parameters and case.operation.method != "put":
        timer_id = quote(unquote(parameters["timer_id"]), safe="")
        ask("PUT", f"{url}/groups/{parameters['group']}/timers/{timer_id}")


def make_what_is_named(case: schemathesis.Case, url: str) -> None:
    """See to it that the tenant, the key or the group of a request exists."""
    path, parameters = case.operation.path, case.path_parameters
    if "action" in parameters:
        body = {"action": "cancel", "filter": {"tags": ["none has this"]}}
        parameters["action"] = ask("POST", f"{url}/timers/actions", body)["data"]["id"]
    if "tenant" in parameters:
        parameters["tenant"] = f"t-{next(_numbers)}"
        ask("POST", f"{url}/tenants", {"name": parameters["tenant"]})
    if "key" in parameters:
        keys = f"{url}/tenants/{parameters['tenant']}/keys"
        parameters["key"] = ask("POST", keys, {"name": "n", "role": "read"})["data"]["id"]
    if path.startswith("/groups/{group}") and "timer_id" not in parameters:
        parameters["group"] = f"g-{next(_numbers)}"
        if case.operation.method != "put":
            ask("PUT", f"{url}/groups/{parameters['group']}", {})
    if "target" in parameters:
        parameters["target"] = f"t-{next(_numbers)}.example"
        if case.operation.method == "delete":
            ask("POST", f"{url}/targets/{parameters['target']}/pause", {})
    if path.endswith("{group}/resume"):
        ask("POST", f"{url}/groups/{parameters['group']}/pause", {})
    make_what_is_sealed(case, url)


def make_what_is_sealed(case: schemathesis.Case, url: str) -> None:
    """See to it that the signing secret or the credential of a request exists."""
    path, parameters = case.operation.path, case.path_parameters
    if path.startswith("/signing-secrets") and case.operation.method == "post":
        group = f"g-{next(_numbers)}"  # each has a few secrets only
        ask("PUT", f"{url}/groups/{group}", {})
        case.body = case.body if "secret" in parameters else {"group": group}
    if "secret" in parameters:
        body = {"group": group} if case.operation.method == "post" else {}
        parameters["secret"] = ask("POST", f"{url}/signing-secrets", body)["data"]["id"]
    if "credential" in parameters:
        parameters["credential"] = "c"  # a tenant has only so many
        if case.operation.method != "put":
            made = grantable_credential({})
            ask("PUT", f"{url}/credentials/{parameters['credential']}", made)
    if case.operation.label == "POST /credentials":
        ask("PUT", f"{url}/credentials/posted", grantable_credential({}))
        ask("DELETE", f"{url}/credentials/posted", {})


def named(body: dict[str, Any]) -> dict[str, Any]:
    """A generated body with a name that nobody has."""
    return {**grantable_group(body), "name": f"n-{next(_numbers)}"}


def grantable_group(body: dict[str, Any]) -> dict[str, Any]:
    """A generated body without the texts that would have to be durations, or headers."""
    left_out = ("timeout", "retention", "headers", "retry_policy", "credential", "on_failure")
    return whole({name: value for name, value in body.items() if name not in left_out})


def grantable_credential(body: dict[str, Any]) -> dict[str, Any]:
    """A generated body with what goes with one type."""
    kept = {name: body[name] for name in ("groups", "allow_http") if name in body}
    return {"type": "bearer", "token": "t", "hosts": ["api.example.com"], **kept}


def whole(body: dict[str, Any]) -> dict[str, Any]:
    """A generated body in which whole numbers are written as such, not as 1.0.

    And in which a burst is that of a rate.
    """
    if body.get("burst") is not None and body.get("per_second") is None:
        body = body | {"per_second": 1.5}
    numbers = {name: int(value) for name, value in body.items() if _is_whole(value)}
    nested = {name: whole(value) for name, value in body.items() if isinstance(value, dict)}
    return body | numbers | nested


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def grantable_action(body: dict[str, Any]) -> dict[str, Any]:
    """A generated body about timers that there may be, with what goes with its verb."""
    needed = {"shift": {"by": "1h"}, "update": {"update": {"name": "n"}}}
    wanted = {"filter": {"tags": ["none has this"]}, "dry_run": body.get("dry_run", False)}
    return {"action": body["action"], **wanted, **needed.get(body["action"], {})}


_numbers = itertools.count(1)
ADAPTED = {
    "POST /timers/actions": grantable_action,
    "POST /timers/redrive": lambda body: {
        "filter": {"tags": ["none has this"]},
        "dry_run": body.get("dry_run", False),
    },
    "POST /groups": named,
    "PUT /groups/{group}": grantable_group,
    "POST /credentials": lambda body: {
        **grantable_credential(body),
        "name": "posted",
    },
    "PUT /credentials/{credential}": grantable_credential,
    "PUT /targets/{target}": whole,
    "POST /targets/{target}/pause": lambda body: {
        # The other fields would have to be times and durations.
        name: value
        for name, value in (body if isinstance(body, dict) else {}).items()
        if name == "reason"
    },
    "POST /tenants": named,
    "PUT /tenants/{tenant}": whole,
    "POST /tenants/{tenant}/keys": lambda body: {
        # A name must be one that people can read.
        **{name: value for name, value in body.items() if not name.startswith("expires")},
        "name": f"key {next(_numbers)}",
    },
    "POST /tenants/{tenant}/keys/{key}/rotate": lambda body: {},
    "POST /signing-secrets": lambda body: {},
    "POST /signing-secrets/{secret}/rotate": lambda body: {},
}


def ask(method: str, url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Make a request that must be granted."""
    content = json.dumps(timer_body() if body is None else body).encode()
    request = Request(url, content, {"X-API-Key": KEY}, method=method)
    with urlopen(request, timeout=10) as answer:
        return json.load(answer)


def grantable(body: dict[str, Any]) -> dict[str, Any]:
    """A generated body with a time and a callback that can be had."""
    kept = ("name", "tags", "metadata", "correlation_id", "timer_id", "group")
    return timer_body(**{name: body[name] for name in kept if name in body})
