"""duetime timer: what is sent to the service, what is printed, and how it ends."""

import io
import json
import sys

import pytest

from duetime.clock import SystemClock, to_rfc3339
from tests.fake_service import KEY, ok, refused

ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def a_timer(**fields):
    due = to_rfc3339(SystemClock().now() + 245_000)
    return {
        "id": ID,
        "timer_id": "cart-42",
        "group": "carts",
        "status": "pending",
        "execute_at": due,
        "version": 1,
        "name": "expire the cart",
        "callback_config": {"type": "http", "url": "https://x.example", "method": "PUT"},
        **fields,
    }


def test_create_sends_what_was_given_and_nothing_else(timer, service):
    """The service has the defaults, not the command line."""
    service.answer = lambda _: ok(a_timer())
    ended = timer("create", "--in", "10s", "--url", "https://x.example")
    assert ended.code == 0
    request = service.requests[0]
    assert (request.method, request.path) == ("POST", "/timers")
    assert request.headers["x-api-key"] == KEY
    assert request.json == {
        "delay": "10s",
        "callback": {"type": "http", "url": "https://x.example"},
    }


def test_create_for_nats(timer, service):
    """A topic instead of a URL; what the service shows of it is one line."""
    config = {"type": "nats", "topic": "orders.due", "key": "7", "jetstream": True}
    service.answer = lambda _: ok(a_timer(callback_config=config, callback_type="nats"))
    flags = ("--topic", "orders.due", "--key", "7", "--jetstream", "--header", "A: 1")
    ended = timer("create", "--in", "10s", *flags, "--data", "{}")
    assert ended.code == 0
    assert service.requests[0].json == {
        "delay": "10s",
        "callback": {**config, "headers": {"A": "1"}, "payload": {}},
    }
    service.requests.clear()
    assert "NATS orders.due.7 in JetStream" in timer("get", ID).out


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ("--topic a --method PUT", "--method: is not for --topic"),
        ("--topic a --timeout 5s", "--timeout: is not for --topic"),
        ("--topic a --credential c", "--credential: is not for --topic"),
        ("--topic a --no-credential", "--no-credential: is not for --topic"),
        ("--topic a --follow-response", "--follow-response: is not for --topic"),
        ("--url http://x.example --key b", "--key: is not for --url"),
        ("--url http://x.example --jetstream", "--jetstream: is not for --url"),
        ("--url http://x.example --topic a", "not allowed with argument"),
    ],
)
def test_flags_of_another_kind_of_callback(timer, service, flags, problem):
    """Nothing is sent, and the message names the flag."""
    ended = timer("create", "--in", "10s", *flags.split())
    assert ended.code == 2
    assert problem in ended.err
    assert not service.requests


def test_create_knows_every_field(timer, service):
    """Each flag has its place in the body."""
    service.answer = lambda _: ok(a_timer())
    flags = """--at 2030-01-01T09:00:00Z --url https://x.example --method PUT --header A:1
        --data {"n":1.50} --timeout 5s --group g --id k --name n --tag a --tag b --metadata [1]
        --correlation-id c --max-attempts 3 --initial-interval 2s --backoff-multiplier 3
        --max-interval 1m --max-duration 1h --jitter 0 --deadline 10m --credential bank
        --follow-response --on-failure https://told.example"""
    assert timer("create", *flags.split(), "--header", "B: x: y").code == 0
    assert service.requests[0].json == {
        "execute_at": "2030-01-01T09:00:00Z",
        "callback": {
            "type": "http",
            "url": "https://x.example",
            "method": "PUT",
            "timeout": "5s",
            "credential": "bank",
            "headers": {"A": "1", "B": "x: y"},
            "payload": {"n": 1.5},
            "follow_response": True,
        },
        "group": "g",
        "timer_id": "k",
        "name": "n",
        "tags": ["a", "b"],
        "metadata": [1],
        "correlation_id": "c",
        "retry_policy": {
            "max_attempts": 3,
            "initial_interval": "2s",
            "backoff_multiplier": 3,
            "max_interval": "1m",
            "max_duration": "1h",
            "jitter": 0,
        },
        "deadline": "10m",
        "on_failure": {"callback": {"type": "http", "url": "https://told.example"}},
    }
    assert b'{"n":1.50}' in service.requests[0].body  # as it was written


def test_a_timer_without_the_credential_of_its_group(timer, service):
    """Null is said, where leaving it out would mean the group's."""
    service.answer = lambda _: ok(a_timer())
    flags = ["--in", "1s", "--url", "https://x.example"]
    assert timer("create", *flags, "--no-credential").code == 0
    assert service.requests[0].json["callback"]["credential"] is None
    assert timer("create", *flags, "--no-credential", "--credential", "c").code == 2


def test_data_comes_from_a_file_or_standard_input(timer, service, tmp_path, monkeypatch):
    """Data is read from a file for @file, and from standard input for -."""
    service.answer = lambda _: ok(a_timer())
    (tmp_path / "body.json").write_text(' {"a": 1}\n')
    timer("create", "--in", "1s", "--url", "https://x.example", "--data", "@body.json")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[2]")))
    timer("create", "--in", "1s", "--url", "https://x.example", "--data", "-")
    sent = [request.json["callback"]["payload"] for request in service.requests]
    assert sent == [{"a": 1}, [2]]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--in", "soon"], "--in: must be a duration"),
        (["--in", "1s", "--at", "2030-01-01T00:00:00Z"], "not allowed with argument --in"),
        ([], "one of the arguments --in --at is required"),
        (["--in", "1s", "--data", "hello"], "a text needs quotes of its own"),
        (["--in", "1s", "--data", "@missing"], "cannot read missing: No such file"),
        (["--in", "1s", "--header", "X"], "must be 'Name: value'"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_sent(flags, told, timer, service):
    """Wrong usage names the flag, sends nothing and exits with 2."""
    ended = timer("create", "--url", "https://x.example", *flags)
    assert ended.code == 2
    assert told in ended.err
    assert service.requests == []


def test_a_timer_is_shown_for_people(timer, service):
    """What is known, in lines; times as seen from now; no colours without a terminal."""
    service.answer = lambda _: ok(a_timer(name="two\nlines\x1b[31m", metadata=None))
    out = timer("get", ID).out
    assert f"id           {ID}\n" in out
    assert "(in 4m" in out
    assert "callback     PUT https://x.example\n" in out
    assert "name         two\N{REPLACEMENT CHARACTER}lines\N{REPLACEMENT CHARACTER}[31m\n" in out
    assert "\x1b" not in out
    assert "metadata" not in out


def test_json_is_what_the_service_answered(timer, service):
    """One document, nothing added, nothing lost."""
    answer = a_timer(something_new=[1, {"a": None}])
    service.answer = lambda _: ok(answer)
    assert json.loads(timer("get", ID, "--json").out) == answer


@pytest.mark.parametrize("verb", ["fire", "pause", "resume", "redrive"])
def test_actions_are_posted(verb, timer, service):
    """To the path of the action."""
    service.answer = lambda _: ok({"id": ID, "status": "paused"})
    ended = timer(verb, ID)
    assert "status       paused" in ended.out
    assert (service.requests[0].method, service.requests[0].path) == (
        "POST",
        f"/timers/{ID}/{verb}",
    )


@pytest.mark.parametrize(
    ("verb", "sent"),
    [
        ("get", ["GET /groups/carts/timers/cart-42"]),
        ("cancel", ["DELETE /groups/carts/timers/cart-42"]),
        ("fire", ["GET /groups/carts/timers/cart-42", f"POST /timers/{ID}/fire"]),
    ],
)
def test_a_timer_is_found_by_its_key(verb, sent, timer, service):
    """--group and --id stand for the ID."""
    service.answer = lambda _: ok(a_timer())
    assert timer(verb, "--group", "carts", "--id", "cart-42").code == 0
    assert [f"{request.method} {request.path}" for request in service.requests] == sent


@pytest.mark.parametrize("argv", [[], [ID, "--id", "k"]])
def test_a_timer_is_named_in_one_way(argv, timer, service):
    """Neither in none nor in two."""
    ended = timer("get", *argv)
    assert ended.code == 2
    assert "name the timer by its ID, or by --id KEY" in ended.err


def test_a_list_is_a_table(timer, service):
    """Aligned, and it says when there is more."""
    timers = [a_timer(), a_timer(status="completed", group="a-longer-group", name=None)]
    service.answer = lambda _: ok({"timers": timers, "total": 9, "next_cursor": "c"})
    heads, first, second, more = timer("list", "--status", "pending").out.splitlines()
    assert heads.split() == ["ID", "STATUS", "DUE", "GROUP", "KEY", "NAME"]
    for line in (first, second):
        assert line.index("cart-42") == heads.index("KEY")
    assert second.endswith("cart-42  -")
    assert more == "2 of 9; --all shows all of them"
    assert service.requests[0].query == {"status": "pending"}


def test_a_list_has_every_filter(timer, service):
    """Those that may be repeated are sent as often as they were given."""
    service.answer = lambda _: ok({"timers": []})
    flags = """--status failed --status canceled --group g --tag a --tag b --any-tag c --any-tag d
        --name-prefix p --name-contains n --correlation-id i --metadata a.b=42 --metadata c=x=y
        --last-error timeout --outcome http --limit 3"""
    assert timer("list", *flags.split()).code == 0
    assert service.requests[0].parameters == [
        ("status", "failed"),
        ("status", "canceled"),
        ("group", "g"),
        ("tag", "a"),
        ("tag", "b"),
        ("any_tag", "c"),
        ("any_tag", "d"),
        ("name_prefix", "p"),
        ("name_contains", "n"),
        ("correlation_id", "i"),
        ("metadata", "a.b=42"),
        ("metadata", "c=x=y"),
        ("last_error", "timeout"),
        ("outcome", "http"),
        ("limit", "3"),
    ]


def test_an_empty_list_says_so(timer, service):
    """An empty list is told of in words."""
    service.answer = lambda _: ok({"timers": [], "total": 0})
    assert timer("list").out == "No timers.\n"


def test_all_pages_are_followed(timer, service):
    """--all goes by the cursor, --json gives one document."""

    def answer(request):
        is_second = "cursor" in request.query
        return ok({"timers": [a_timer()], "next_cursor": None if is_second else "c"})

    service.answer = answer
    document = json.loads(timer("list", "--all", "--json").out)
    assert (len(document["timers"]), document["total"]) == (2, 2)


def test_attempts_are_a_table(timer, service):
    """Each with what came of it."""
    first = {"kind": "http", "status_code": 503, "latency_ms": 12, "error": "HTTP 503"}
    service.answer = lambda _: ok({"attempts": [{"attempt": 1, **first}]})
    out = timer("attempts", ID).out
    assert out.splitlines()[1].split() == ["1", "-", "http", "503", "12", "ms", "-", "HTTP", "503"]
    assert "RESPONSE" not in out


def test_attempts_show_all_that_is_known_of_them(timer, service):
    """Occurrences where there are several, the node, and the headers that were kept."""
    known = {
        "node": "node-3fa92c",
        "started_at": "2020-01-01T00:00:00Z",
        "finished_at": "2020-01-01T00:00:01Z",
        "kind": "response",
        "status_code": 200,
        "latency_ms": 12,
        "error": "the answer does not match response_schema: it is empty",
        "response": "",
        "response_headers": {"x-request-id": "r-1", "etag": "\x1b[31m"},
        "next_at": "2100-01-01T00:00:00Z",
    }
    attempts = [{"occurrence": 1, "attempt": 1, **known}, {"occurrence": 2, "attempt": 1, **known}]
    service.answer = lambda _: ok({"attempts": attempts})
    heads, _, second = timer("attempts", ID).out.splitlines()
    assert heads.split() == [
        *("OCCURRENCE", "ATTEMPT", "NODE", "STARTED", "FINISHED", "RESULT", "HTTP", "TOOK"),
        *("NEXT", "HEADERS", "ERROR"),
    ]
    assert second.split()[:3] == ["2", "1", "node-3fa92c"]
    assert " response " in second
    assert " x-request-id: r-1; etag: \N{REPLACEMENT CHARACTER}[31m " in second
    assert second.endswith("  the answer does not match response_schema: it is empty")
    service.answer = lambda _: ok({"attempts": attempts[:1]})
    assert "OCCURRENCE" not in timer("attempts", ID).out
    assert json.loads(timer("attempts", ID, "--json").out)["attempts"] == attempts[:1]


def test_a_timer_is_shown_with_the_headers_of_its_answer(timer, service):
    """On a line of their own, shortened."""
    outcome = {"kind": "ok", "response_headers": {"etag": "x" * 300, "b": "\x1b"}}
    service.answer = lambda _: ok(a_timer(outcome=outcome))
    assert "its headers  etag: " + "x" * 193 + "…\n" in timer("get", ID).out


def test_attempts_show_how_an_answer_began(timer, service):
    """On the attempt's own line, shortened, and without what could take over a terminal."""
    answers = ["two\n  lines\x1b[31m", "x" * 41, None]
    attempts = [{"attempt": n, "kind": "ok", "response": each} for n, each in enumerate(answers)]
    service.answer = lambda _: ok({"attempts": attempts})
    heads, *lines = timer("attempts", ID).out.splitlines()
    assert heads.split()[-2:] == ["RESPONSE", "ERROR"]
    at = heads.index("RESPONSE")
    expected = ["two lines\N{REPLACEMENT CHARACTER}[31m", "x" * 39 + "…", "-"]
    assert [line[at:] for line in lines] == expected


def test_a_timer_is_shown_with_how_its_answer_began(timer, service):
    """On a line of its own, with more of it; nothing where nothing was kept."""
    for response, shown in [
        ('{"a":\r\n\t1}\x1b', 'response     {"a": 1}\N{REPLACEMENT CHARACTER}\n'),
        ("x" * 201, "response     " + "x" * 199 + "…\n"),
    ]:
        outcome = {"kind": "ok", "response": response}
        service.answer = lambda _, outcome=outcome: ok(a_timer(outcome=outcome))
        assert shown in timer("get", ID).out
    for outcome in (None, {"kind": "ok"}, {"kind": "ok", "response": None}):
        service.answer = lambda _, outcome=outcome: ok(a_timer(outcome=outcome))
        assert "response" not in timer("get", ID).out


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, 2, 2),
        (401, 4, 4),
        (403, 10, 4),
        (404, 3, 3),
        (409, 5, 5),
        (412, 6, 5),
        (429, 7, 1),
        (500, 1, 1),
        (503, 9, 1),
    ],
)
def test_the_exit_code_tells_why(status, code, expected, timer, service):
    """And the message goes to standard error, where it does not get in the way."""
    service.answer = lambda _: refused(status, code, "the reason")
    ended = timer("get", ID)
    assert (ended.code, ended.out) == (expected, "")
    assert ended.err.startswith("duetime: the reason\n")
    assert KEY not in ended.err


def test_watch_follows_a_timer_to_its_end(timer, service):
    """Each change once, and the exit code tells how it ended."""
    states = iter([("pending", 1), ("pending", 1), ("executing", 2), ("completed", 3)])

    def answer(_):
        status, version = next(states)
        return ok(a_timer(status=status, version=version))

    service.answer = answer
    ended = timer("watch", ID, "--interval", "50ms")
    assert ended.code == 0
    assert [line.split()[1] for line in ended.out.splitlines()] == [
        "pending",
        "executing",
        "completed",
    ]


def test_watch_says_what_a_timer_waits_for(timer, service):
    """Also if that changes while the timer stays as it is."""
    reasons = iter(["target a:443 is paused until 9", "target a:443 is paused until 9", None])

    def answer(_):
        reason = next(reasons, None)
        return ok(a_timer(status="pending" if reason else "completed", waiting_for=reason))

    service.answer = answer
    first, second = timer("watch", ID, "--interval", "50ms").out.splitlines()
    assert first.endswith("  target a:443 is paused until 9")
    assert second.endswith("completed")


@pytest.mark.parametrize("status", ["failed", "canceled"])
def test_watch_ends_with_1_if_it_was_not_delivered(status, timer, service):
    """So that `watch && next` does what it says."""
    service.answer = lambda _: ok(a_timer(status=status, last_error="HTTP 500"))
    ended = timer("watch", ID, "--json")
    assert ended.code == 1
    assert json.loads(ended.out)["status"] == status


def test_watch_outlives_a_restart(timer, service, monkeypatch):
    """A service that is away for a moment is asked again; the first look is not forgiven."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    answers = iter(
        [
            ok(a_timer()),
            refused(503, 9, "not yet"),
            refused(503, 9, "not yet"),
            ok(a_timer(status="completed")),
        ]
    )
    service.answer = lambda _: next(answers)
    ended = timer("watch", ID)
    assert ended.code == 0
    assert ended.err == "duetime: not yet; trying again\n"
    service.answer = lambda _: refused(503, 9, "down")
    assert timer("watch", ID).code == 1


def test_the_address_and_the_key_come_from_the_surroundings(run, service, monkeypatch, tmp_path):
    """A flag, else the environment, else .env, else the key that dev made."""
    service.answer = lambda _: ok(a_timer())
    monkeypatch.setenv("DUETIME_URL", service.url)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "duetime.key").write_text("from-dev\n")
    run("timer", "get", ID)
    (tmp_path / ".env").write_text("API_KEY=from-dotenv\n")
    run("timer", "get", ID)
    monkeypatch.setenv("API_KEY", "from-env")
    run("timer", "get", ID)
    run("timer", "get", ID, "--api-key", "from-flag")
    keys = [request.headers["x-api-key"] for request in service.requests]
    assert keys == ["from-dev", "from-dotenv", "from-env", "from-flag"]
