"""duetime nodes: what is asked, and what is printed."""

import json

from duetime.clock import SystemClock, to_rfc3339
from tests.fake_service import KEY, ok, refused


def a_node(**fields):
    return {
        "name": "web-1-811-03bf2c",
        "state": "alive",
        "is_this": False,
        "shards": 2064,
        "behind_ms": 7,
        "last_seen_ms": 612,
        "started_at": to_rfc3339(SystemClock().now() - 7_200_000),
        "version": "0.1.0",
        **fields,
    }


def test_nodes_are_a_table(run, service):
    """One line each, and the one that answered is marked."""
    service.answer = lambda _: ok({"nodes": [a_node(), a_node(name="other", is_this=True)]})
    ended = run("nodes", "--server", service.url, "--api-key", KEY)
    assert ended.code == 0
    heads, first, second = ended.out.splitlines()
    assert " ".join(heads.split()) == "NODE STATE SHARDS BEHIND SEEN STARTED VERSION"
    line = "web-1-811-03bf2c alive 2064 7 ms 612 ms ago 2h ago 0.1.0"
    assert " ".join(first.split()) == line
    assert second.startswith("other *  ")
    assert (service.requests[0].method, service.requests[0].target) == ("GET", "/nodes")
    assert service.requests[0].headers["x-api-key"] == KEY


def test_nodes_as_json(run, service):
    """What the service answered, shards and all."""
    answer = {"nodes": [a_node(shard_ranges="0-3,17")]}
    service.answer = lambda _: ok(answer)
    ended = run("nodes", "--with-shards", "--json", "--server", service.url, "--api-key", KEY)
    assert json.loads(ended.out) == answer
    assert service.requests[0].query == {"shards": "ranges"}


def test_no_nodes(run, service):
    """A service without an engine knows of none."""
    service.answer = lambda _: ok({"nodes": []})
    assert run("nodes", "--server", service.url, "--api-key", KEY).out == "No nodes.\n"


def test_a_refusal_is_told(run, service):
    """With the exit code that it has everywhere."""
    service.answer = lambda _: refused(401, 4, "invalid API key")
    ended = run("nodes", "--server", service.url, "--api-key", KEY)
    assert ended.code == 4
    assert "invalid API key" in ended.err
