"""The terms of a group: what answers must pass, as it has it now, for all of its timers."""

import json
import sys

import pytest
from msgspec import Raw

from duetime.auditing import Audit
from duetime.delivery import schema
from duetime.delivery.terms import Terms
from duetime.layout import Layout
from duetime.stores.memory import MemoryStore
from duetime.tenancy.caller import OPERATOR, Caller
from duetime.tenancy.groups import Groups
from duetime.tenancy.requests import PutGroup
from duetime.tenancy.rules import Rules
from duetime.tenancy.terms import GroupTerms
from duetime.testing import FakeClock, RecordingSender
from duetime.vault import Vault
from tests.factories import make_spec, make_timer

SECRETS = (b"s" * 24,)
USUAL = Terms(secrets=SECRETS)
SCHEMA = Raw(b'{"type": "object"}')


class Node:
    """What one node knows and does of groups."""

    def __init__(self, store: MemoryStore, clock: FakeClock) -> None:
        self.rules = Rules(store, clock)
        audit = Audit(store, clock)
        sender = RecordingSender()
        self.groups = Groups(self.rules, store, sender, clock, audit, layout=Layout(16))
        self.terms = GroupTerms(self.rules, Vault(), clock, installation=SECRETS)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def node(store: MemoryStore) -> Node:
    return Node(store, FakeClock())


def problem(terms: Terms, body: bytes) -> str | None:
    assert terms.check is not None
    return terms.check(body)


async def test_a_group_without_a_schema(node: Node):
    """Has the usual terms, and so has one of which nothing is known."""
    assert node.terms(make_timer(group="unknown")) == USUAL
    await node.groups.put(OPERATOR, "g", PutGroup(title="T"))
    assert node.terms(make_timer(group="g")) == USUAL


async def test_what_is_set_counts_at_once(node: Node):
    """For timers that were made before too, until it is taken away."""
    timer = make_timer(group="g")
    await node.groups.put(OPERATOR, "g", PutGroup(response_schema=SCHEMA))
    terms = node.terms(timer)
    assert terms.secrets == USUAL.secrets
    assert problem(terms, b"{}") is None
    assert problem(terms, b"[]") is not None
    await node.groups.put(OPERATOR, "g", PutGroup(response_schema=Raw(b'{"type": "array"}')))
    assert problem(node.terms(timer), b"[]") is None
    await node.groups.put(OPERATOR, "g", PutGroup(title="T"))
    assert problem(node.terms(timer), b"[]") is None
    await node.groups.put(OPERATOR, "g", PutGroup(response_schema=Raw(b"null")))
    assert node.terms(timer) == USUAL


async def test_whoever_is_told_of_a_failure_answers_as_they_like(node: Node):
    """The story goes to another receiver: what the group asks of its own is not for it."""
    await node.groups.put(OPERATOR, "g", PutGroup(response_schema=SCHEMA))
    told = make_timer(group="g", spec=make_spec(tells_of=make_timer().id))
    assert node.terms(told) == USUAL
    assert problem(node.terms(make_timer(group="g")), b"[]") is not None


async def test_each_group_has_its_own(node: Node):
    """Of the same name in another tenant too, and that of a deleted group is gone."""
    await node.groups.put(OPERATOR, "g", PutGroup(response_schema=SCHEMA))
    assert node.terms(make_timer(group="h")) == USUAL
    assert node.terms(make_timer(group="g", tenant="acme")) == USUAL
    await node.groups.put(Caller("acme"), "g", PutGroup(response_schema=Raw(b'{"type":"array"}')))
    assert problem(node.terms(make_timer(group="g", tenant="acme")), b"[]") is None
    assert problem(node.terms(make_timer(group="g")), b"[]") is not None
    await node.groups.delete(OPERATOR, "g")
    assert node.terms(make_timer(group="g")) == USUAL


async def test_other_nodes_go_by_it(store: MemoryStore, node: Node):
    """From when they have read the rules."""
    other = Node(store, FakeClock())
    await node.groups.put(OPERATOR, "default", PutGroup(response_schema=SCHEMA))
    assert other.terms(make_timer()) == USUAL
    await other.rules.look()
    assert problem(other.terms(make_timer()), b"[]") is not None


async def test_it_is_compiled_once(node: Node, monkeypatch: pytest.MonkeyPatch):
    """For each change of it, and not for each attempt."""
    made = []
    compiling = schema._validator
    monkeypatch.setattr(schema, "_validator", lambda each: made.append(1) or compiling(each))
    text = json.dumps({"title": "of this test", "type": "object"})
    await node.groups.put(OPERATOR, "g", PutGroup(response_schema=Raw(text.encode())))
    for _ in range(10):
        assert problem(node.terms(make_timer(group="g")), b"{}") is None
    assert len(made) == 1


async def test_a_node_that_lacks_the_package(node: Node, monkeypatch: pytest.MonkeyPatch):
    """Takes no answer for good that it cannot check, and says why."""
    await node.groups.put(OPERATOR, "g", PutGroup(response_schema=SCHEMA))
    schema.compiled.cache_clear()
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    assert problem(node.terms(make_timer(group="g")), b"{}") == (
        "this node cannot check the answer by response_schema, which needs a package that is not "
        "installed: pip install 'duetime[schema]'"
    )
