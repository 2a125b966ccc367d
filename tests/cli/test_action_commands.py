"""duetime action: what is sent to the service, what is asked, and how it ends."""

import json
import signal

import pytest

from tests.fake_service import KEY, envelope, ok, refused

ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def an_action(**fields):
    return {
        "id": ID,
        "action": "cancel",
        "state": "done",
        "dry_run": False,
        "filter": {"group": "carts"},
        "matched": 1200,
        "changed": 1200,
        "skipped": 0,
        "failed": 0,
        "created_at": "2020-01-01T00:00:00Z",
        "finished_at": "2020-01-01T00:00:01Z",
        "actor": "ci",
        "error": None,
        **fields,
    }


def test_start_knows_every_filter(call, service):
    """Each flag has its place in the filter; values of metadata are JSON where they can be."""
    service.answer = lambda _: (202, envelope(an_action()))
    flags = """--status pending --status paused --group g --tag a --tag b --any-tag c
        --name-prefix p --name-contains n --correlation-id i --created-after t1 --created-before t2
        --execute-after t3 --execute-before t4 --metadata a.b=42 --metadata c=text
        --metadata d="42" --last-error e --outcome http --yes"""
    ended = call("action", "start", "cancel", *flags.split())
    assert ended.code == 0
    request = service.requests[0]
    assert (request.method, request.target) == ("POST", "/timers/actions")
    assert request.json == {
        "action": "cancel",
        "dry_run": False,
        "filter": {
            "status": ["pending", "paused"],
            "group": "g",
            "tags": ["a", "b"],
            "any_tags": ["c"],
            "name_prefix": "p",
            "name_contains": "n",
            "correlation_id": "i",
            "created_after": "t1",
            "created_before": "t2",
            "execute_after": "t3",
            "execute_before": "t4",
            "metadata": {"a.b": 42, "c": "text", "d": "42"},
            "last_error": "e",
            "outcome": "http",
        },
    }


@pytest.mark.parametrize(
    ("argv", "body"),
    [
        (["shift", "--by", "1h"], {"action": "shift", "by": "1h"}),
        (["shift", "--by=-30m"], {"action": "shift", "by": "-30m"}),
        (
            ["update", "--update", '{"deadline": "10m"}'],
            {"action": "update", "update": {"deadline": "10m"}},
        ),
        (["delete"], {"action": "delete"}),
    ],
)
def test_start_sends_what_belongs_to_an_action(argv, body, call, service):
    """And --all stands for every timer."""
    service.answer = lambda _: (202, envelope(an_action()))
    assert call("action", "start", *argv, "--all", "--yes").code == 0
    assert service.requests[0].json == {"filter": {"all": True}, "dry_run": False, **body}


def test_a_key_makes_it_safe_to_ask_again(call, service):
    """It goes into its header; without it there is none."""
    service.answer = lambda _: (202, envelope(an_action()))
    assert call("action", "start", "fire", "--all", "--yes", "--idempotency-key", "k").code == 0
    assert call("action", "start", "fire", "--all", "--yes").code == 0
    assert [each.headers.get("idempotency-key") for each in service.requests] == ["k", None]


def test_what_is_counted_first_has_not_the_key(call, service, at_a_terminal):
    """It is other content: the service would refuse the action itself by the same key."""
    service.answer = lambda _: (202, envelope(an_action()))
    at_a_terminal("y\n")
    assert call("action", "start", "fire", "--all", "--idempotency-key", "k").code == 0
    sent = [
        (each.json["dry_run"], each.headers.get("idempotency-key")) for each in service.requests
    ]
    assert sent == [(True, None), (False, "k")]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["cancel", "--yes"], "say which timers, such as --group or --status; or --all"),
        (["cancel", "--all", "--group", "g", "--yes"], "--all: means all timers"),
        (["cancel", "--all"], "nobody can be asked here: say --yes to do it, or --dry-run"),
        (["shift", "--all", "--yes"], "--by: belongs to shift, which needs it"),
        (["cancel", "--by", "1h", "--all", "--yes"], "--by: belongs to shift"),
        (["update", "--all", "--yes"], "--update: belongs to update, which needs it"),
        (["shift", "--by", "soon", "--all", "--yes"], "--by: must be a duration"),
        (["cancel", "--metadata", "a", "--yes"], "must be PATH=VALUE"),
        (["cancel", "--metadata", "a=1", "--metadata", "a=2", "--yes"], "names 'a' twice"),
        (["explode", "--all", "--yes"], "invalid choice"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_sent(argv, told, call, service):
    """Wrong usage says what to do, sends nothing and exits with 2."""
    ended = call("action", "start", *argv)
    assert ended.code == 2
    assert told in ended.err
    assert service.requests == []


def test_a_flag_that_a_command_has_not(call, service):
    """The usage that is shown is that of the command, which tells what it does."""
    ended = call("action", "cancel", "some-id", "--tag", "trial")
    assert ended.code == 2
    assert ended.err.startswith("usage: duetime action cancel ")
    assert "unrecognized arguments: --tag trial" in ended.err
    assert service.requests == []


def test_a_dry_run_only_counts(call, service):
    """It needs no yes, because it changes nothing."""
    service.answer = lambda _: (202, envelope(an_action(dry_run=True, changed=0)))
    ended = call("action", "start", "cancel", "--group", "carts", "--dry-run")
    assert ended.code == 0
    assert "action       cancel (dry run)\n" in ended.out
    assert "matched      1,200\n" in ended.out
    assert [request.json["dry_run"] for request in service.requests] == [True]


@pytest.mark.parametrize(("typed", "is_done"), [("y\n", True), ("YES\n", True), ("\n", False)])
def test_on_a_terminal_it_asks_first(typed, is_done, call, service, at_a_terminal):
    """It says how many match; only a clear yes is one."""
    at_a_terminal(typed)
    service.answer = lambda _: (202, envelope(an_action()))
    ended = call("action", "start", "cancel", "--group", "carts")
    assert "1,200 timers match. Cancel all of them? [y/N] " in ended.err
    assert ("Nothing was done." in ended.err) == (not is_done)
    assert ended.code == (0 if is_done else 1)
    dry_runs = [request.json["dry_run"] for request in service.requests]
    assert dry_runs == ([True, False] if is_done else [True])


def test_on_a_terminal_nothing_is_asked_about_nothing(call, service, at_a_terminal):
    """Where no timers match, there is nothing to do."""
    at_a_terminal("y\n")
    service.answer = lambda _: (202, envelope(an_action(matched=0)))
    ended = call("action", "start", "cancel", "--group", "carts")
    assert (ended.code, len(service.requests)) == (0, 1)
    assert "No timers match" in ended.err


def test_a_count_that_failed_is_not_asked_about(call, service, at_a_terminal):
    """Nobody can say yes to an unknown number."""
    at_a_terminal("y\n")
    service.answer = lambda _: (202, envelope(an_action(state="failed", error="no store")))
    ended = call("action", "start", "cancel", "--group", "carts")
    assert (ended.code, len(service.requests)) == (1, 1)
    assert "error        no store\n" in ended.out


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ({"state": "done"}, 0),
        ({"state": "done", "failed": 2}, 1),
        ({"state": "canceled"}, 1),
        ({"state": "failed", "error": "no store"}, 1),
        ({"state": "something new"}, 1),
    ],
)
def test_start_waits_until_it_has_ended(ending, code, call, service):
    """The exit code tells whether all was done."""
    looks = iter([an_action(state="running", changed=3)] * 2 + [an_action(**ending)])

    def answer(request):
        if request.method == "POST":
            return 202, envelope(an_action(state="running", matched=0))
        return ok(next(looks))

    service.answer = answer
    argv = ["--group", "carts", "--yes", "--interval", "50ms"]
    ended = call("action", "start", "cancel", *argv)
    assert ended.code == code
    assert f"status       {ending['state']}\n" in ended.out
    sent = [f"{request.method} {request.target}" for request in service.requests]
    assert sent == ["POST /timers/actions"] + [f"GET /actions/{ID}"] * 3


def test_progress_is_told_on_standard_error(call, service, at_a_terminal, monkeypatch):
    """In a line that replaces itself."""
    at_a_terminal("")
    monkeypatch.setattr("duetime.cli.progress.Progress.end", lambda _: None)
    looks = iter([an_action(state="running", changed=3, skipped=2)] * 4 + [an_action()])
    service.answer = lambda _: ok(next(looks))
    ended = call("action", "watch", ID, "--interval", "50ms")
    assert ended.code == 0
    assert "cancel: 1,200 match, 3 changed, 2 skipped" in ended.err
    assert "match" not in ended.out.replace("matched", "")


def test_start_need_not_wait(call, service):
    """With --no-wait it tells of the action as it began."""
    service.answer = lambda _: (202, envelope(an_action(state="running")))
    ended = call("action", "start", "cancel", "--all", "--yes", "--no-wait", "--json")
    assert (ended.code, len(service.requests)) == (0, 1)
    assert json.loads(ended.out)["state"] == "running"


def test_watch_as_json_is_a_line_for_each_change(call, service):
    """As when a timer is watched."""
    running = an_action(state="running", changed=3)
    looks = iter([running, running, an_action()])
    service.answer = lambda _: ok(next(looks))
    ended = call("action", "watch", ID, "--interval", "50ms", "--json")
    assert ended.code == 0
    states = [json.loads(line)["state"] for line in ended.out.splitlines()]
    assert states == ["running", "done"]


def test_waiting_outlives_a_restart(call, service, monkeypatch):
    """A service that is away for a moment is asked again, after as long as it says."""
    pauses = []
    monkeypatch.setattr("time.sleep", pauses.append)
    answers = iter(
        [
            ok(an_action(state="running")),
            refused(503, 9, "not yet"),
            refused(429, 7, "slowly", Retry_After="7"),
            ok(an_action()),
        ]
    )
    service.answer = lambda _: next(answers)
    ended = call("action", "watch", ID)
    assert ended.code == 0
    assert ended.err == "duetime: not yet; trying again\n"
    assert pauses == [0.5, 1.0, 7.0]


@pytest.mark.parametrize("is_silent", [False, True])
def test_ctrl_c_leaves_it_running(is_silent, spawn, service):
    """And says how to look at it, also while the service does not answer."""

    def answer(request):
        if request.method == "POST":
            return 202, envelope(an_action(state="running"))
        return None if is_silent else ok(an_action(state="running"))

    service.answer = answer
    flags = ["--all", "--yes", "--interval", "50ms", "--server", service.url, "--api-key", KEY]
    process = spawn("action", "start", "cancel", *flags)
    assert service.asked.wait(20)
    service.asked.clear()
    assert service.asked.wait(20)  # it looks how far it is: now it is waiting
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert f"The action goes on. `duetime action watch {ID}` waits for it again" in err
    assert "Traceback" not in err
    assert KEY not in err


def test_actions_are_a_table(call, service):
    """Each with how far it is."""
    service.answer = lambda _: ok({"actions": [an_action(), an_action(dry_run=True)]})
    heads, first, second = call("action", "list").out.splitlines()
    columns = ["ID", "ACTION", "STATE", "MATCHED", "CHANGED", "SKIPPED", "FAILED", "STARTED", "BY"]
    assert heads.split() == columns
    assert first.split()[:7] == [ID, "cancel", "done", "1,200", "1,200", "0", "0"]
    assert "cancel (dry run)" in second
    service.answer = lambda _: ok({"actions": []})
    assert call("action", "list").out == "No actions.\n"


def test_an_action_is_shown_and_stopped(call, service):
    """By its id."""
    service.answer = lambda _: ok(an_action(error="a\x1b[31m"))
    out = call("action", "get", ID).out
    assert 'filter       {"group":"carts"}\n' in out
    assert "error        a\N{REPLACEMENT CHARACTER}[31m\n" in out
    assert call("action", "cancel", ID, "--json").code == 0
    sent = [f"{request.method} {request.target}" for request in service.requests]
    assert sent == [f"GET /actions/{ID}", f"DELETE /actions/{ID}"]
