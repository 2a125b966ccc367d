"""duetime audit: what is asked, what is printed, and what is written."""

import json

import pytest

from tests.fake_service import lines, ok, refused

LINE = {
    "id": "01",
    "at": "2026-01-01T00:00:00.000Z",
    "actor": "ci",
    "key": "9f1c0e5a77d2b364",
    "action": "group.pause",
    "kind": "group",
    "target": "carts",
    "group": "carts",
    "address": "10.0.0.1",
    "correlation_id": None,
    "details": {"n": 1},
}
FILTERS = """--actor ci --key dt_9f_secret --action group.pause --kind group --target carts
    --group g --after 2026-01-01T00:00:00Z --before 2026-02-01T00:00:00Z --order asc"""
SENT = {
    "actor": "ci",
    "key": "9f",
    "action": "group.pause",
    "kind": "group",
    "target": "carts",
    "group": "g",
    "after": "2026-01-01T00:00:00Z",
    "before": "2026-02-01T00:00:00Z",
    "order": "asc",
}


def test_the_audit_is_a_table(call, service):
    """With exact times; and it says when there is more."""
    service.answer = lambda _: ok({"lines": [LINE, {"id": "02"}], "next_cursor": "c"})
    ended = call("audit", "list", *FILTERS.split(), "--limit", "2", "--cursor", "b")
    heads, first, second, more = ended.out.splitlines()
    columns = ["AT", "ACTOR", "ACTION", "TARGET", "GROUP", "ADDRESS", "DETAILS"]
    assert heads.split() == columns
    cells = [LINE["at"], "ci", "group.pause", "carts", "carts", "10.0.0.1", '{"n":1}']
    assert first.split() == cells
    assert second.split() == ["-"] * 7
    assert more == "there are more; --all shows all of them"
    assert service.requests[0].path == "/audit"
    assert service.requests[0].query == SENT | {"limit": "2", "cursor": "b"}


def test_all_pages_are_followed(call, service):
    """--all goes by the cursor, --json gives one document."""

    def answer(request):
        return ok({"lines": [LINE], "next_cursor": None if "cursor" in request.query else "c"})

    service.answer = answer
    assert json.loads(call("audit", "list", "--all", "--json").out) == {"lines": [LINE, LINE]}
    service.answer = lambda _: ok({"lines": []})
    assert call("audit", "list").out == "Nothing was noted.\n"


def test_an_export_goes_to_standard_output(call, service):
    """Line by line as it came, and nothing else."""
    service.answer = lambda _: lines(b'{"id": 1.50}\n{"i', b'd": 2}\n')
    ended = call("audit", "export", *FILTERS.split())
    assert (ended.code, ended.out, ended.err) == (0, '{"id": 1.50}\n{"id": 2}\n', "")
    assert service.requests[0].path == "/audit/export"
    assert service.requests[0].query == SENT


def test_an_export_goes_into_a_file(call, service, tmp_path):
    """And says how much it was, also if it was nothing."""
    service.answer = lambda _: lines(b'{"id": 1}\n{"id": 2}')
    ended = call("audit", "export", "--output", "audit.jsonl")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "Wrote 2 lines to audit.jsonl.\n"
    assert (tmp_path / "audit.jsonl").read_bytes() == b'{"id": 1}\n{"id": 2}\n'
    service.answer = lambda _: lines()
    assert call("audit", "export", "--output", "none").err == "Wrote 0 lines to none.\n"
    assert (tmp_path / "none").read_bytes() == b""


def test_an_export_that_breaks_off_is_no_success(call, service, tmp_path):
    """What came is kept, and it is said that this is not all."""
    service.answer = lambda _: lines(b'{"id": 1}\n{"id', breaks_off=True)
    ended = call("audit", "export", "--output", "audit.jsonl")
    assert ended.code == 1
    assert "Wrote 1 lines to audit.jsonl, and that is not all of them" in ended.err
    assert "broke off" in ended.err
    assert (tmp_path / "audit.jsonl").read_bytes() == b'{"id": 1}\n'
    piped = call("audit", "export")
    assert (piped.code, piped.out) == (1, '{"id": 1}\n')


def test_an_export_that_is_refused_leaves_the_file_alone(call, service, tmp_path):
    """Last month's is not lost to a wrong key."""
    (tmp_path / "audit.jsonl").write_text("before\n")
    service.answer = lambda _: refused(403, 10, "not with this key")
    ended = call("audit", "export", "--output", "audit.jsonl")
    assert ended.code == 4
    assert (tmp_path / "audit.jsonl").read_text() == "before\n"


@pytest.mark.parametrize("place", ["missing/audit.jsonl", "."])
def test_a_file_that_cannot_be_written_is_named(place, call, service):
    """By its flag, and with the reason."""
    service.answer = lambda _: lines(b'{"id": 1}\n')
    ended = call("audit", "export", "--output", place)
    assert ended.code == 2
    assert f"--output: cannot write {place}: " in ended.err
