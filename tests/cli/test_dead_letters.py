"""Failed timers on the command line: why, what is tried again, and who is told."""

import pytest

from duetime.clock import SystemClock, to_rfc3339
from tests.cli.test_timer_commands import ID, a_timer
from tests.fake_service import ok


def test_a_list_says_why_timers_failed(timer, service):
    """On the line of each, shortened and harmless; only where some have failed."""
    errors = ["HTTP 503", "x" * 61, "\x1b[31m", None]
    failed = [a_timer(status="failed", last_error=each) for each in errors]
    service.answer = lambda _: ok({"timers": [*failed, a_timer(last_error="HTTP 500")]})
    heads, *lines = timer("list").out.splitlines()
    at = heads.index("ERROR")
    expected = ["HTTP 503", "x" * 59 + "…", "\N{REPLACEMENT CHARACTER}[31m", "-", "-"]
    assert [line[at:] for line in lines] == expected


def a_retry(**fields):
    at = to_rfc3339(SystemClock().now() + 245_000)
    return a_timer(failures=2, max_attempts=8, attempt=2, next_attempt_at=at, **fields)


def test_a_retry_can_be_seen(timer, service):
    """Which attempt comes next, of how many, and when; in a list, alone, and when it is watched."""
    service.answer = lambda _: ok({"timers": [a_retry(), a_timer()]})
    heads, first, second = timer("list").out.splitlines()
    assert first[heads.index("ATTEMPT") :].startswith("3 of 8, next in 4m")
    assert second[heads.index("ATTEMPT") :] == "-"
    service.answer = lambda _: ok(a_retry())
    assert "attempt      3 of 8, next in 4m" in timer("get", ID).out
    answers = iter([ok(a_retry(last_error="HTTP 503")), ok(a_timer(status="completed"))])
    service.answer = lambda _: next(answers)
    seen = timer("watch", ID, "--interval", "50ms").out.splitlines()[0]
    assert "pending  attempt 3 of 8, next in 4m" in seen
    assert seen.endswith("HTTP 503")


@pytest.mark.parametrize("odd", [{"failures": "2"}, {"failures": None}, {"failures": 0}])
def test_a_service_that_tells_of_no_retries(odd, timer, service):
    """One of another version is shown with what it tells."""
    service.answer = lambda _: ok(a_timer(attempt=1, **odd))
    assert "attempt      1\n" in timer("get", ID).out


def test_attempts_of_several_occurrences_are_told_apart(timer, service):
    """A receiver that asked to be called again had a first attempt each time."""
    attempts = [{"occurrence": number, "attempt": 1, "kind": "ok"} for number in (1, 2)]
    service.answer = lambda _: ok({"attempts": attempts})
    heads, *lines = timer("attempts", ID).out.splitlines()
    assert heads.split()[:2] == ["OCCURRENCE", "ATTEMPT"]
    assert [line.split()[:2] for line in lines] == [["1", "1"], ["2", "1"]]
    service.answer = lambda _: ok({"attempts": attempts[1:]})
    assert "OCCURRENCE" not in timer("attempts", ID).out


def test_who_is_told_is_shown(timer, service):
    """Where, by which timer, and of which this one tells."""
    told = {"callback": {"type": "http", "url": "https://told.example", "method": "POST"}}
    fields = {"on_failure": told, "on_failure_timer": "a", "tells_of": "b", "occurrence": 2}
    service.answer = lambda _: ok(a_timer(**fields))
    out = timer("get", ID).out
    assert "on failure   POST https://told.example\n" in out
    assert "told by      a\n" in out
    assert "tells of     b\n" in out
    assert "occurrence   2\n" in out


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("none", None),
        ('{"callback": {"type": "http", "url": "u"}}', {"callback": {"type": "http", "url": "u"}}),
        ("@told.json", {"callback": {"type": "http", "url": "f"}}),
    ],
)
def test_who_is_told_can_be_all_of_it(given, sent, timer, service, tmp_path):
    """A URL is short for it; none is nobody, whatever the group has."""
    (tmp_path / "told.json").write_text('{"callback": {"type": "http", "url": "f"}}')
    service.answer = lambda _: ok(a_timer())
    flags = ("--in", "1s", "--url", "https://x.example", "--on-failure", given)
    assert timer("create", *flags).code == 0
    assert service.requests[0].json["on_failure"] == sent


def test_redrive_of_many_is_an_action(call, service):
    """It counts, and is asked for like the others."""
    action = {"id": ID, "action": "redrive", "state": "done", "matched": 2, "changed": 2}
    service.answer = lambda _: ok(action)
    flags = ("--group", "g", "--last-error", "503", "--yes")
    assert call("action", "start", "redrive", *flags).code == 0
    assert service.requests[0].json == {
        "action": "redrive",
        "filter": {"group": "g", "last_error": "503"},
        "dry_run": False,
    }
