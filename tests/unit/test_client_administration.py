"""The Python client beyond single timers: tenants, keys, groups, usage, actions and the audit."""

import time

import pytest

from duetime.client import (
    AsyncClient,
    Client,
    ClientError,
    ServiceError,
    ServiceUnreachable,
    target_calls,
    tenancy_calls,
)
from tests.fake_service import KEY, FakeService, lines, ok, refused
from tests.twin_clients import Twin

# Has every field that some call cannot do without.
ANSWER = {
    "id": "01",
    "name": "n",
    "key": "dt_01_secret",
    "secret": "whsec_x",
    "state": "done",
    "tenant": "acme",
    "tenants": [],
    "keys": [],
    "groups": [],
    "credentials": [],
    "targets": [],
    "actions": [],
    "signing_secrets": [],
    "unreadable": [],
    "lines": [],
}


@pytest.fixture
def service():
    with FakeService() as running:
        running.answer = lambda _: ok(ANSWER)
        yield running


@pytest.fixture
def both(service):
    return Twin(service)


@pytest.mark.parametrize(
    ("call", "sent", "body"),
    [
        (("create_tenant", (), {"name": "a"}), "POST /tenants", {"name": "a"}),
        (("tenants", (), {}), "GET /tenants", None),
        (("get_tenant", ("a/b",), {}), "GET /tenants/a%2Fb", None),
        (("update_tenant", ("a",), {"title": None}), "PUT /tenants/a", {"title": None}),
        (("delete_tenant", ("a",), {}), "DELETE /tenants/a", None),
        (
            ("create_key", ("a",), {"name": "ci", "role": "write", "groups": ["g"]}),
            "POST /tenants/a/keys",
            {"name": "ci", "role": "write", "groups": ["g"]},
        ),
        (("keys", ("a",), {}), "GET /tenants/a/keys", None),
        (("get_key", ("a", "01"), {}), "GET /tenants/a/keys/01", None),
        (("rotate_key", ("a", "01"), {}), "POST /tenants/a/keys/01/rotate", {}),
        (
            ("rotate_key", ("a", "01"), {"valid_for": "1h"}),
            "POST /tenants/a/keys/01/rotate",
            {"valid_for": "1h"},
        ),
        (("revoke_key", ("a", "../01"), {}), "DELETE /tenants/a/keys/..%2F01", None),
        (("create_signing_secret", (), {}), "POST /signing-secrets", {}),
        (
            ("create_signing_secret", (), {"group": "g", "expires_in": "1d"}),
            "POST /signing-secrets",
            {"group": "g", "expires_in": "1d"},
        ),
        (("signing_secrets", (), {}), "GET /signing-secrets", None),
        (("signing_secrets", (), {"group": "g"}), "GET /signing-secrets?group=g", None),
        (("rotate_signing_secret", ("01",), {}), "POST /signing-secrets/01/rotate", {}),
        (
            ("rotate_signing_secret", ("01",), {"valid_for": "1h", "secret": "whsec_x"}),
            "POST /signing-secrets/01/rotate",
            {"valid_for": "1h", "secret": "whsec_x"},
        ),
        (("revoke_signing_secret", ("../01",), {}), "DELETE /signing-secrets/..%2F01", None),
        (("reseal_secrets", (), {}), "POST /secrets/reseal", None),
        (("create_group", (), {"name": "g"}), "POST /groups", {"name": "g"}),
        (("groups", (), {}), "GET /groups", None),
        (("get_group", ("g",), {}), "GET /groups/g", None),
        (("put_group", ("g",), {"timeout": "5s"}), "PUT /groups/g", {"timeout": "5s"}),
        (("delete_group", ("g",), {}), "DELETE /groups/g", None),
        (("delete_group", ("g",), {"cancel": True}), "DELETE /groups/g?cancel=true", None),
        (("pause_group", ("g",), {}), "POST /groups/g/pause", None),
        (("resume_group", ("g",), {}), "POST /groups/g/resume", None),
        (
            ("create_credential", (), {"name": "bank", "type": "bearer", "token": "t"}),
            "POST /credentials",
            {"name": "bank", "type": "bearer", "token": "t"},
        ),
        (("credentials", (), {}), "GET /credentials", None),
        (("get_credential", ("a/b",), {}), "GET /credentials/a%2Fb", None),
        (("put_credential", ("bank",), {"token": "n"}), "PUT /credentials/bank", {"token": "n"}),
        (("delete_credential", ("bank",), {}), "DELETE /credentials/bank", None),
        (("targets", (), {}), "GET /targets", None),
        (("get_target", ("[::1]:80",), {}), "GET /targets/%5B%3A%3A1%5D%3A80", None),
        (
            ("put_target", ("a.example",), {"limits": {"burst": None}}),
            "PUT /targets/a.example",
            {"limits": {"burst": None}},
        ),
        (("pause_target", ("a.example",), {}), "POST /targets/a.example/pause", {}),
        (
            ("pause_target", ("a.example",), {"for_": "1h", "reason": "r"}),
            "POST /targets/a.example/pause",
            {"for": "1h", "reason": "r"},
        ),
        (
            ("pause_target", ("a.example",), {"until": "2030-01-01T00:00:00Z"}),
            "POST /targets/a.example/pause",
            {"until": "2030-01-01T00:00:00Z"},
        ),
        (("resume_target", ("a.example",), {}), "POST /targets/a.example/resume", None),
        (("forget_target", ("a.example",), {}), "DELETE /targets/a.example", None),
        (("whoami", (), {}), "GET /whoami", None),
        (("usage", (), {}), "GET /usage", None),
        (("actions", (), {}), "GET /actions", None),
        (("get_action", ("01",), {}), "GET /actions/01", None),
        (("cancel_action", ("01",), {}), "DELETE /actions/01", None),
        (("audit_page", (), {"actor": "ci", "limit": None}), "GET /audit?actor=ci", None),
        (
            ("redrive_all", ({"group": "g"},), {"dry_run": True}),
            "POST /timers/redrive",
            {"filter": {"group": "g"}, "dry_run": True},
        ),
        (
            ("start_action", ("cancel", {"all": True}), {}),
            "POST /timers/actions",
            {"action": "cancel", "filter": {"all": True}, "dry_run": False},
        ),
        (
            ("start_action", ("shift", {"tags": ["a"]}), {"by": "-1h", "dry_run": True}),
            "POST /timers/actions",
            {"action": "shift", "filter": {"tags": ["a"]}, "dry_run": True, "by": "-1h"},
        ),
    ],
)
async def test_each_method_is_one_request(call, sent, body, both, service):
    """With the key, to its path, and answered with the envelope's data."""
    method, args, fields = call
    assert await both(method, *args, **fields) == ANSWER
    request = service.requests[0]
    assert f"{request.method} {request.target}" == sent
    assert (request.json if request.body else None) == body
    assert request.headers["x-api-key"] == KEY
    assert "x-tenant-id" not in request.headers


@pytest.mark.parametrize(
    ("method", "args"),
    [("start_action", ("fire", {"all": True})), ("redrive_all", ({"all": True},))],
)
async def test_an_action_may_be_asked_for_again(method, args, both, service):
    """With a key of the caller's, which goes along as a header."""
    await both(method, *args, idempotency_key="k")
    assert [request.headers["idempotency-key"] for request in service.requests] == ["k"] * 2


async def test_a_client_acts_for_its_tenant(service):
    """Every request says for whom, exports among them."""
    twin = Twin(service, tenant="acme")
    for method, answer in (("usage", ok(ANSWER)), ("export_audit", lines())):
        service.answer = lambda _, answer=answer: answer
        await twin(method)
        assert [request.headers["x-tenant-id"] for request in service.requests] == ["acme"] * 2
        service.requests.clear()


@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("tenants", ()),
        ("keys", ("a",)),
        ("groups", ()),
        ("targets", ()),
        ("usage", ()),
        ("actions", ()),
        ("get_action", ("01",)),
        ("audit_page", ()),
    ],
)
@pytest.mark.parametrize("data", [None, [], "text", {"something": "else"}, dict.fromkeys(ANSWER)])
def test_an_answer_without_what_is_needed_is_an_error(method, args, data, service):
    """And no KeyError somewhere else."""
    service.answer = lambda _: ok(data)
    with (
        Client(service.url) as client,
        pytest.raises(ServiceError, match=r"the service's answer has no '[a-z]+'"),
    ):
        getattr(client, method)(*args)


async def test_filters_that_are_several_are_repeated(both, service):
    """A text is one, a list as many as there are; metadata has paths and values."""
    service.answer = lambda _: ok({"timers": []})
    await both(
        "page",
        status=["pending", "paused"],
        tag=("a", "b"),
        any_tag="c",
        name_contains="x",
        metadata={"a.b": 42, "c": "plain text", "d": "42", "e": None, "f": True},
        last_error="timeout",
        outcome="http",
    )
    assert service.requests[0].parameters == [
        ("status", "pending"),
        ("status", "paused"),
        ("tag", "a"),
        ("tag", "b"),
        ("any_tag", "c"),
        ("name_contains", "x"),
        ("metadata", "a.b=42"),
        ("metadata", "c=plain text"),
        ("metadata", 'd="42"'),
        ("metadata", "e=null"),
        ("metadata", "f=true"),
        ("last_error", "timeout"),
        ("outcome", "http"),
    ]


async def test_the_audit_follows_the_cursor(both, service):
    """Page after page, with the same filters, until there is none."""

    def answer(request):
        if request.query.get("cursor") == "c2":
            return ok({"lines": [{"id": "3"}], "next_cursor": None})
        return ok({"lines": [{"id": "1"}, {"id": "2"}], "next_cursor": "c2"})

    service.answer = answer
    found = await both("audit", actor="ci", limit=2)
    assert [line["id"] for line in found] == ["1", "2", "3"]
    assert service.requests[1].query == {"actor": "ci", "limit": "2", "cursor": "c2"}


async def test_an_export_is_lines_however_they_are_cut(both, service):
    """Pieces end anywhere; the last line may have no end; empty lines are none."""
    service.answer = lambda _: lines(b'{"id', b'": 1}\n{"id": 2}\n\n{', b'"id": 3', b"}")
    assert await both("export_audit", kind="key") == [b'{"id": 1}', b'{"id": 2}', b'{"id": 3}']
    assert service.requests[0].target == "/audit/export?kind=key"


async def test_an_export_that_breaks_off_is_told(service):
    """What came before it is there; the end is an error, not a shorter export."""
    service.answer = lambda _: lines(b'{"id": 1}\n{"id', breaks_off=True)
    with Client(service.url) as client:
        export = client.export_audit()
        assert next(export) == b'{"id": 1}'
        with pytest.raises(ServiceUnreachable, match="broke off: "):
            next(export)
    async with AsyncClient(service.url) as client:
        export = client.export_audit()
        assert await anext(export) == b'{"id": 1}'
        with pytest.raises(ServiceUnreachable, match="broke off: "):
            await anext(export)


def test_an_export_that_is_refused_says_why(service):
    """Like any other call."""
    service.answer = lambda _: refused(403, 10, "not with this key")
    with Client(service.url) as client, pytest.raises(ServiceError, match="not with this key"):
        next(client.export_audit())


@pytest.mark.parametrize("answer", [(200, b"<html>"), ok({}), (204, b"")])
def test_an_export_of_something_else_is_told_as_such(answer, service):
    """A page of a proxy is no line of the audit."""
    service.answer = lambda _: answer
    with (
        Client(service.url) as client,
        pytest.raises(ServiceError, match="not the answer of a Duetime service"),
    ):
        next(client.export_audit())


@pytest.mark.parametrize(
    ("said", "seconds"), [("7", 7.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None)]
)
def test_a_refusal_says_when_to_try_again(said, seconds, service):
    """In seconds, if the service said it in seconds."""
    service.answer = lambda _: refused(429, 7, "too many", Retry_After=said)
    with Client(service.url) as client, pytest.raises(ServiceError) as caught:
        client.usage()
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize(
    "call",
    [
        tenancy_calls.pause_group("g"),
        target_calls.pause_target("a.example"),
        target_calls.resume_target("a.example"),
        tenancy_calls.delete_group("g", cancel=False),
        tenancy_calls.delete_tenant("acme"),
    ],
)
def test_what_every_node_must_obey_is_waited_for_longer(call, service):
    """The service answers when all of them do, which may take longer than other calls may."""
    assert call.patience > 30
    with Client(service.url, timeout=0.05) as client:
        service.answer = lambda _: time.sleep(0.2) or ok(ANSWER)
        assert client.exchange(call).status == 200


def test_keys_and_tenants_that_fit_into_no_header_are_not_repeated(service):
    """The error says that the request cannot be made, and tells nobody the key."""
    for options in ({"api_key": "secret\nbreak"}, {"tenant": "secret\nbreak"}):
        with Client(service.url, **options) as client, pytest.raises(ClientError) as caught:
            client.usage()
        assert "secret" not in str(caught.value)
