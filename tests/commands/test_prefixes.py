"""Whose a subject is, which patterns take which, and which streams can stand side by side."""

from contextlib import AsyncExitStack

import pytest

from duetime.commands.prefixes import Prefix, prefixes
from duetime.nats.subjects import covers, token
from tests.api.client import timer_body
from tests.commands.callers import WITHIN
from tests.commands.conftest import Enqueue, Serve, stranger


def test_one_prefix_for_all_tenants():
    """Unless settings say otherwise, the tenant stands behind the prefix."""
    [prefix] = prefixes("eu.duetime", ())
    assert prefix.pattern == "eu.duetime.*"
    assert prefix.name == "eu-duetime"
    assert prefix.tenant_of("eu.duetime.acme.timers.create") == "acme"
    odd = "a.b*c d"
    assert prefix.tenant_of(f"eu.duetime.{token(odd)}.queue.create") == odd


@pytest.mark.promise("tenants-apart")
@pytest.mark.parametrize("part", ["%61cme", "ac%6De", "acme%", "%2e", "%ff"])
def test_a_tenant_has_one_subject(part: str):
    """Another spelling of its name is none of its subjects: NATS may deny the one and not know the
    other.
    """
    [prefix] = prefixes("duetime", ())
    assert prefix.tenant_of(f"duetime.{part}.timers.create") == ""


def test_a_prefix_for_each_tenant():
    """Settings name the tenant of each prefix, whatever its subjects look like."""
    found = prefixes("duetime", (("orders.timers", "acme"), ("x", "globex")))
    assert found == [Prefix("orders.timers", "acme"), Prefix("x", "globex")]
    assert found[0].tenant_of("orders.timers.timers.create") == "acme"


@pytest.mark.parametrize(
    ("pattern", "other", "is_covered"),
    [
        ("a.b", "a.b", True),
        ("a.*", "a.b", True),
        ("a.*", "a.*", True),
        ("a.b", "a.*", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a.*.c", True),
        ("a.>", "a", False),
        ("a.*", "a.>", False),
        ("a.*", "a.b.c", False),
        ("a.*.c", "a.b", False),
        (">", "a.>", True),
        ("*.queue.*", "duetime.*.queue.*", False),
    ],
)
def test_which_patterns_cover_which(pattern: str, other: str, is_covered):
    """A pattern covers another if it takes every subject that the other takes."""
    assert covers(pattern, other) is is_covered


async def test_a_tenant_called_events(
    serve: Serve, enqueue: Enqueue, url: str, stack: AsyncExitStack
):
    """Beside the stream of events there is room for that of commands, and for any tenant's name."""
    queued = await enqueue(trusts="subjects")
    client = await stranger(stack, url)
    jetstream, name = client.jetstream(), f"{queued.stream}_events"
    await jetstream.add_stream(name=name, subjects=[f"{queued.prefix}.events.*.*.*"])
    stack.push_async_callback(jetstream.delete_stream, name)
    served = await serve(trusts="subjects", api=queued.api, prefix=queued.prefix)
    for tenant in ("events", "queue", "timers"):
        await served.api.make_key(tenant)
        assert (await served.ask("create", timer_body(), key=None, tenant=tenant)).status == 201
        await queued.put(timer_body(), key=None, tenant=tenant)
        await queued.queue.step()
        timers = await served.api.call("GET", "/timers", headers={"X-Tenant-ID": tenant})
        assert len(timers.data["timers"]) == 2
    stored = await jetstream.publish(f"{queued.prefix}.events.queue.g.created", timeout=WITHIN)
    assert (stored.stream, stored.seq) == (name, 1)
