"""The program as a process: interrupted, cut off, without a terminal and on one."""

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from duetime.cli.banner import banner
from duetime.cli.output import relative
from tests.cli.conftest import PROGRAM
from tests.fake_service import KEY, ok


def test_version_is_printed(run):
    """By the command and by the flag."""
    assert run("version").out == run("--version").out


def test_without_a_command_it_says_what_there_is(run):
    """Without a command it lists the commands, and exits with 2."""
    ended = run()
    assert ended.code == 2
    assert "usage: duetime" in ended.err


def test_ctrl_c_ends_a_call_at_once(spawn, service):
    """While the service is silent: no traceback, and the shell sees 130."""
    service.answer = lambda _: None
    process = spawn("timer", "list", DUETIME_URL=service.url)
    assert service.asked.wait(10)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=5) == ("", "")
    assert process.returncode == -signal.SIGINT  # 130 in a shell


def test_ctrl_c_ends_a_watch(spawn, service):
    """The same while it waits between two looks."""
    service.answer = lambda _: ok({"timers": []})
    process = spawn("timer", "watch", "--interval", "1h", DUETIME_URL=service.url)
    assert process.stdout.readline().endswith("Ctrl-C to stop\n")
    assert process.stdout.readline() == "No timers.\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=5) == ("", "")


def test_a_reader_that_has_seen_enough_is_no_error(service):
    """A pipe that is closed, as by `| head`, gives no traceback."""
    timers = [{"id": "x" * 1000, "status": "pending"}] * 1000
    service.answer = lambda _: ok({"timers": timers})
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [*PROGRAM, "timer", "list"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env={**os.environ, "DUETIME_URL": service.url},
    )
    os.close(writing)
    os.read(reading, 10)
    os.close(reading)
    assert process.communicate(timeout=10)[1] == b""
    assert process.returncode == 141


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_colours_are_for_terminals(no_color, is_coloured, service):
    """Colours are printed on terminals only, and NO_COLOR is honoured."""
    service.answer = lambda _: ok({"timers": [{"id": "1", "status": "failed"}]})
    terminal, end = pty.openpty()
    env = {**os.environ, "DUETIME_URL": service.url, "NO_COLOR": no_color, "TERM": "xterm"}
    process = subprocess.Popen([*PROGRAM, "timer", "list"], stdout=end, env=env)
    os.close(end)
    shown = b""
    try:
        while data := os.read(terminal, 4096):
            shown += data
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(terminal)
    assert process.wait(10) == 0
    assert (b"\x1b[31mfailed\x1b[0m" in shown) == is_coloured
    assert b"failed" in shown


@pytest.mark.parametrize(
    ("distance", "text"),
    [
        (0, "now"),
        (999, "now"),
        (-3000, "3s ago"),
        (245_000, "in 4m5s"),
        (3_600_000, "in 1h"),
        (36_000_000, "in 10h"),
        (-90_000_000, "1d1h ago"),
        (100 * 86_400_000, "in 100d"),
    ],
)
def test_times_are_seen_from_now(distance, text):
    """In the largest unit, and the next one while that is small."""
    assert relative("2025-06-15T15:06:40Z", 1_750_000_000_000 - distance) == text


def commands(text: str) -> list[list[str]]:
    joined = text.replace("\\\n", " ")
    lines = [line.strip() for line in joined.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith(("curl", "duetime timer"))]


def test_the_banner_has_all_that_a_first_timer_needs():
    """The key, the addresses, and two commands to paste."""
    text = banner(host="0.0.0.0", port=8080, api_key=KEY, receiver_port=8081)
    curl, create = commands(text)
    assert curl[:3] == ["curl", "-sS", "http://127.0.0.1:8080/timers"]
    assert f"X-API-Key: {KEY}" in curl
    assert json.loads(curl[-1])["callback"]["url"] == "http://127.0.0.1:8081/hello"
    assert "--server" not in create
    assert "http://127.0.0.1:8080/docs" in text


def test_the_banners_commands_create_the_same_timer(service, spawn):
    """Pasted into a shell, both work."""
    service.answer = lambda _: ok({"id": "1", "status": "pending"})
    port = int(service.url.rpartition(":")[2])
    curl, create = commands(banner(host="::1", port=port, api_key=KEY, receiver_port=9))
    assert f"http://[::1]:{port}/timers" in curl
    curl, create = commands(banner(host="127.0.0.1", port=port, api_key=KEY, receiver_port=9))
    subprocess.run(curl, check=True, capture_output=True, timeout=10)
    process = spawn(*create[1:], API_KEY=KEY)
    assert process.wait(10) == 0
    first, second = service.requests
    assert first.json == second.json
    assert first.headers["x-api-key"] == second.headers["x-api-key"] == KEY


def test_the_command_is_installed():
    """The command `duetime` is the one that pyproject names."""
    program = Path(sys.executable).with_name("duetime")
    assert subprocess.run([program, "version"], capture_output=True, check=True, timeout=20)
