"""Authentication, as seeds/002 describes it."""

import hmac
import inspect

import pytest

from duetime.api.auth import Authentication
from duetime.errors import Unauthorized
from duetime.stores.memory import MemoryStore
from duetime.tenancy.role import Role
from duetime.tenancy.rules import Rules
from duetime.tenancy.uses import Uses
from duetime.testing import FakeClock
from tests.api.client import KEY, Api, call_app, timer_body

ID = "01977420-dc00-7012-9f7e-3d5f520271b1"
ENDPOINTS = [
    ("POST", "/timers"),
    ("GET", "/timers"),
    ("POST", "/timers/batch"),
    ("GET", f"/timers/{ID}"),
    ("PUT", f"/timers/{ID}"),
    ("DELETE", f"/timers/{ID}"),
    ("POST", f"/timers/{ID}/fire"),
    ("POST", f"/timers/{ID}/pause"),
    ("POST", f"/timers/{ID}/resume"),
    ("POST", f"/timers/{ID}/redrive"),
    ("POST", "/timers/redrive"),
    ("GET", f"/timers/{ID}/attempts"),
    ("GET", "/groups/default/timers/x"),
    ("PUT", "/groups/default/timers/x"),
    ("DELETE", "/groups/default/timers/x"),
    ("POST", "/timers/actions"),
    ("GET", "/actions"),
    ("GET", f"/actions/{ID}"),
    ("DELETE", f"/actions/{ID}"),
    ("POST", "/groups"),
    ("GET", "/groups"),
    ("GET", "/groups/default"),
    ("PUT", "/groups/default"),
    ("DELETE", "/groups/default"),
    ("POST", "/groups/default/pause"),
    ("POST", "/groups/default/resume"),
    ("POST", "/credentials"),
    ("GET", "/credentials"),
    ("GET", "/credentials/bank"),
    ("PUT", "/credentials/bank"),
    ("DELETE", "/credentials/bank"),
    ("GET", "/targets"),
    ("GET", "/targets/a.example"),
    ("PUT", "/targets/a.example"),
    ("DELETE", "/targets/a.example"),
    ("POST", "/targets/a.example/pause"),
    ("POST", "/targets/a.example/resume"),
    ("POST", "/tenants"),
    ("GET", "/tenants"),
    ("GET", "/tenants/acme"),
    ("PUT", "/tenants/acme"),
    ("DELETE", "/tenants/acme"),
    ("POST", "/tenants/acme/keys"),
    ("GET", "/tenants/acme/keys"),
    ("GET", "/tenants/acme/keys/0123456789abcdef"),
    ("DELETE", "/tenants/acme/keys/0123456789abcdef"),
    ("POST", "/tenants/acme/keys/0123456789abcdef/rotate"),
    ("POST", "/signing-secrets"),
    ("GET", "/signing-secrets"),
    ("DELETE", "/signing-secrets/fedcba9876543210"),
    ("POST", "/signing-secrets/fedcba9876543210/rotate"),
    ("POST", "/secrets/reseal"),
    ("GET", "/whoami"),
    ("GET", "/usage"),
    ("GET", "/audit"),
    ("GET", "/audit/export"),
    ("GET", "/events"),
    ("GET", "/nodes"),
    ("GET", "/nodes/node-1"),
    ("PATCH", "/timers"),
]


NAMED = {
    f"/actions/{ID}": "/actions/{action}",
    ID: "{id}",
    "groups/default": "groups/{group}",
    "timers/x": "timers/{timer_id}",
    "acme": "{tenant}",
    "bank": "{credential}",
    "a.example": "{target}",
    "0123456789abcdef": "{key}",
    "fedcba9876543210": "{secret}",
    "node-1": "{node}",
}


def template(path: str) -> str:
    """A path with what it names in braces, as the description has it."""
    for value, name in NAMED.items():
        path = path.replace(value, name)
    return path


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
@pytest.mark.parametrize("key", [None, "", "wrong-key", KEY[:-1], KEY + "x", KEY.upper()])
async def test_without_the_key(quick_api: Api, method: str, path: str, key: str | None):
    """Every endpoint but the health checks needs the key: 401, code 4, before anything is read."""
    answer = await quick_api.call(method, path, b"this is not JSON", key=key)
    assert answer.status == 401
    assert answer.envelope == {"code": 4, "message": "unauthorized", "data": None}


async def test_every_operation_is_tried(quick_api: Api):
    """The table above names every operation that needs a key."""
    tried = {(method, template(path)) for method, path in ENDPOINTS}
    description = (await quick_api.get("/openapi.json")).envelope
    described = {
        (method.upper(), path)
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
        if operation.get("security") != []
    }
    assert tried - {("PATCH", "/timers")} == described


async def test_with_the_key(quick_api: Api):
    """The right key opens the door."""
    assert (await quick_api.post("/timers", timer_body())).status == 201


async def test_key_that_is_no_text(quick_api: Api):
    """Bytes that are no UTF-8 are a wrong key, not an error."""
    answer = await call_app(quick_api.app, "GET", "/timers", headers=[(b"x-api-key", b"\xff\xfe")])
    assert answer.summary == (401, 4, "unauthorized")


async def test_body_is_not_read(quick_api: Api):
    """Who has no key cannot make the server read a body."""
    big = [(b"content-length", b"999999999999")]
    answer = await call_app(quick_api.app, "POST", "/timers", headers=big)
    assert answer.status == 401


async def test_constant_time(monkeypatch: pytest.MonkeyPatch):
    """Keys of any length are compared as digests of one length, by compare_digest."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    presented = [None, b"", b"x", KEY.encode()[:-1], b"x" * len(KEY), b"x" * 10_000]
    authentication = make_authentication()
    for each in presented:
        with pytest.raises(Unauthorized):
            await authentication.caller_of([] if each is None else [(b"x-api-key", each)], None)
    caller = await authentication.caller_of([(b"x-api-key", KEY.encode())], None)
    assert (caller.tenant, caller.role) == ("default", Role.OPERATOR)
    assert len(compared) == len(presented) + 1  # no early exit, whatever was presented
    assert {len(side) for pair in compared for side in pair} == {32}
    assert "==" not in inspect.getsource(Authentication._is_operators)


def test_key_is_not_kept():
    """Only a digest of the key stays in memory here."""
    assert KEY not in repr(vars(make_authentication()))


def make_authentication() -> Authentication:
    clock, store = FakeClock(), MemoryStore()
    return Authentication(KEY, Rules(store, clock), Uses(store, clock), clock)
