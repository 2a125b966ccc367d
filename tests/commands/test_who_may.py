"""Who may command over NATS: by a key, or by the subjects that NATS lets somebody publish on."""

import msgspec
import pytest

from tests.api.client import KEY, timer_body
from tests.commands.callers import Served
from tests.commands.conftest import Serve

ALL = [
    ("create", timer_body()),
    ("get", {"timer_id": "t1"}),
    ("update", {"timer_id": "t1", "name": "n"}),
    ("cancel", {"timer_id": "t1"}),
]


@pytest.mark.promise("roles-hold")
@pytest.mark.parametrize(("verb", "body"), ALL)
async def test_without_a_key(served: Served, verb: str, body):
    """Whoever sends no key along, or one that is not known, is refused and nothing is done."""
    made = await served.api.create(timer_id="t1")
    for key in (None, "not a key", "dt_0123456789abcdef_nothing"):
        answer = await served.ask(verb, body, key=key)
        assert answer.summary == (401, 4, "unauthorized")
    assert (await served.api.get("/timers")).data["timers"] == [await listed(served, made["id"])]


async def listed(served: Served, id_: str):
    [only] = [
        each for each in (await served.api.get("/timers")).data["timers"] if each["id"] == id_
    ]
    return only


async def test_a_bearer_token(served: Served):
    """A key may come as a bearer token too."""
    answer = await served.ask("create", timer_body(), key=None, Authorization=f"Bearer {KEY}")
    assert answer.status == 201


async def test_two_keys(served: Served):
    """A message that says twice who asks is refused."""
    answer = await served.ask("create", timer_body(), **{"x-api-key": KEY})
    assert answer.summary == (400, 2, "X-API-Key: is given more than once")


@pytest.mark.promise("roles-hold")
@pytest.mark.parametrize(("verb", "body"), ALL)
async def test_the_key_of_another_tenant(served: Served, verb: str, body):
    """A tenant's key opens nothing on the subjects of another."""
    key = await served.api.make_key("acme")
    await served.api.make_key("globex")
    for tenant in ("globex", "default", "nobody"):
        answer = await served.ask(verb, body, key=key, tenant=tenant)
        expected = "subject: only the operator's key acts for other tenants"
        assert answer.summary == (403, 10, expected)


@pytest.mark.promise("tenants-apart")
async def test_tenants_are_kept_apart(served: Served):
    """What one tenant has made is not found on the subjects of another."""
    acme, globex = await served.api.make_key("acme"), await served.api.make_key("globex")
    made = await served.ask("create", timer_body(timer_id="t1"), key=acme, tenant="acme")
    assert made.status == 201
    for verb, body in ALL[1:]:
        for which in ({"id": made.data["id"]}, {"timer_id": "t1"}):
            sent = {name: value for name, value in body.items() if name != "timer_id"} | which
            answer = await served.ask(verb, sent, key=globex, tenant="globex")
            assert answer.summary == (404, 3, "timer not found")


async def test_the_operators_key_acts_for_every_tenant(served: Served):
    """The subject says for which; a tenant that is not there is not found."""
    await served.api.make_key("acme")
    made = await served.ask("create", timer_body(), tenant="acme")
    assert made.status == 201
    assert (await served.api.get(f"/timers/{made.data['id']}")).status == 404
    answer = await served.ask("create", timer_body(), tenant="nobody")
    assert answer.summary == (404, 3, "tenant not found")


async def test_a_header_that_names_another_tenant(served: Served):
    """X-Tenant-ID may repeat what the subject says, and nothing else."""
    await served.api.make_key("acme")
    same = await served.ask("create", timer_body(), tenant="acme", X_Tenant_ID="acme")
    other = await served.ask("create", timer_body(), tenant="acme", X_Tenant_ID="default")
    assert same.status == 201
    assert other.summary == (403, 10, "X-Tenant-ID: names another tenant than the subject")


async def test_a_role_that_only_reads(served: Served):
    """A key that may only read gets what it may see, and changes nothing."""
    writer = await served.api.make_key("acme")
    made = await served.ask("create", timer_body(timer_id="t1"), key=writer, tenant="acme")
    reader = await served.api.make_key("acme", "read_without_payloads")
    shown = await served.ask("get", {"id": made.data["id"]}, key=reader, tenant="acme")
    assert shown.status == 200
    for verb, body in (ALL[0], *ALL[2:]):
        answer = await served.ask(verb, body, key=reader, tenant="acme")
        expected = "this takes the role 'write'; this key has the role 'read_without_payloads'"
        assert answer.summary == (403, 10, expected)


async def test_a_key_for_some_groups(served: Served):
    """A key that is for one group makes nothing in another."""
    key = await served.api.make_key("acme", "write", groups=["g"])
    inside = await served.ask("create", timer_body(group="g"), key=key, tenant="acme")
    outside = await served.ask("create", timer_body(), key=key, tenant="acme")
    assert (inside.status, outside.status) == (201, 403)


async def test_by_subject(serve: Serve):
    """Where subjects decide, whoever may publish on those of a tenant acts for it."""
    served = await serve(trusts="subjects")
    await served.api.make_key("acme")
    made = await served.ask("create", timer_body(), key=None, tenant="acme")
    assert made.status == 201
    assert (await served.ask("get", {"id": made.data["id"]}, key=None)).status == 404
    answer = await served.ask("cancel", {"id": made.data["id"]}, key=None, tenant="acme")
    assert answer.status == 200


async def test_by_subject_there_is_nobody_unknown(serve: Serve):
    """A tenant that is not there, or was deleted, has no subjects."""
    served = await serve(trusts="subjects")
    await served.api.make_key("acme")
    assert (await served.api.delete("/tenants/acme")).status in {200, 202}
    for tenant in ("nobody", "acme", "%00"):
        for verb, body in ALL:
            answer = await served.ask(verb, body, key=None, tenant=tenant)
            assert answer.summary == (404, 3, "tenant not found")


async def test_the_audit_says_who_it_was(serve: Serve):
    """By a key, its name; by subject, "nats"; and that it came over NATS."""
    served = await serve()
    key = await served.api.make_key("acme", "write")
    made = await served.ask("create", timer_body(), key=key, tenant="acme", X_Correlation_ID="c1")
    await served.ask("cancel", {"id": made.data["id"]}, key=key, tenant="acme")
    trusting = await serve(trusts="subjects", api=served.api)
    other = await trusting.ask("create", timer_body(), key=None, tenant="acme")
    await trusting.ask("update", {"id": other.data["id"], "name": "n"}, key=None, tenant="acme")
    await served.api.service.audit.close()
    lines = await served.api.call("GET", "/audit", headers={"X-Tenant-ID": "acme"})
    told = [
        (line["actor"], line["action"], line["address"], line["key"] is None)
        for line in reversed(lines.data["lines"])
        if line["kind"] == "timer"
    ]
    assert sorted(told) == [
        ("nats", "timer.create", "nats", True),
        ("nats", "timer.update", "nats", True),
        ("write of acme", "timer.cancel", "nats", False),
        ("write of acme", "timer.create", "nats", False),
    ]


async def test_nobody_else_is_called_nats(served: Served):
    """No key may have the name that the audit gives to whoever NATS has let in."""
    answer = await served.api.post("/tenants/default/keys", {"name": "NATS", "role": "write"})
    assert answer.summary == (400, 2, "name: only who was let in by NATS is called 'nats'")


async def test_subjects_of_their_own(serve: Serve):
    """NATS_TENANTS says which subjects are whose, and then there are no others."""
    served = await serve(trusts="subjects", tenants=(("o.timers", "acme"), ("globex", "globex")))
    await served.api.make_key("acme")
    await served.api.make_key("globex")
    made = await served.ask("create", timer_body(), key=None, prefix="o.timers")
    assert made.status == 201
    mine = await served.ask("get", {"id": made.data["id"]}, key=None, prefix="o.timers")
    theirs = await served.ask("get", {"id": made.data["id"]}, key=None, prefix="globex")
    assert (mine.status, theirs.status) == (200, 404)


async def test_by_subject_a_tenant_that_is_being_deleted(serve: Serve):
    """It may still come to stay, so whoever commands for it is to try again."""
    served = await serve(trusts="subjects")
    await served.api.make_key("acme")
    rules = served.api.service.rules
    kept = rules.tenants.kept("acme")
    leaving = msgspec.structs.replace(kept.document, leaving_since=1)
    assert await rules.put(rules.tenants, "acme", kept, leaving)
    answer = await served.ask("create", timer_body(), key=None, tenant="acme")
    assert (answer.status, answer.code) == (503, 9)
