"""duetime usage: what is asked, and what is printed."""

import json

from tests.fake_service import ok

USAGE = {
    "tenant": "acme",
    "counted_at": "2020-01-01T00:00:00Z",
    "timers": {"pending": 1200, "completed": 3},
    "pending": 1200,
    "creates_per_second": 1.5,
    "quotas": {"creates_per_second": 100, "pending": None, "payload_bytes": 65536},
    "groups": [
        {"group": "carts", "timers": {"pending": 7}, "pending": 7, "quotas": {"pending": 50}},
        {"group": "mail", "timers": {}, "pending": 0, "quotas": {}, "limits": {"concurrency": 20}},
    ],
}


def test_usage_is_told_beside_what_there_may_be(call, service):
    """Of the tenant in lines, of its groups in a table."""
    service.answer = lambda _: ok(USAGE)
    ended = call("usage", "--tenant", "acme")
    assert ended.code == 0
    assert "pending      1,200\n" in ended.out
    assert "creates/s    1.5 of 100\n" in ended.out
    assert "timers       1,200 pending, 3 completed\n" in ended.out
    assert "at most      65,536 bytes of payload\n" in ended.out
    heads, carts, mail = ended.out.splitlines()[-3:]
    assert heads.split() == ["GROUP", "PENDING", "CALLBACKS", "TIMERS"]
    assert carts.split() == ["carts", "7", "of", "50", "-", "7", "pending"]
    assert mail.split() == ["mail", "0", "20", "at", "once", "-"]
    request = service.requests[0]
    assert (request.method, request.target) == ("GET", "/usage")
    assert request.headers["x-tenant-id"] == "acme"


def test_usage_as_json(call, service):
    """What the service answered."""
    service.answer = lambda _: ok(USAGE)
    assert json.loads(call("usage", "--json").out) == USAGE


def test_usage_of_which_little_is_known(call, service):
    """What is not told is not shown."""
    service.answer = lambda _: ok({"tenant": "acme", "groups": [{}], "timers": 7})
    ended = call("usage")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("tenant       acme\n")


def test_who_am_i(call, service):
    """What the key is good for, and for whom."""
    who = {"tenant": "acme", "role": "write", "name": "ci", "key": "01", "groups": ["a", "b"]}
    service.answer = lambda _: ok(who)
    out = call("whoami").out
    assert out.splitlines()[0].split() == ["tenant", "acme"]
    assert "a, b" in out
    assert json.loads(call("whoami", "--json").out) == who
    assert service.requests[0].target == "/whoami"
