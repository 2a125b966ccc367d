"""A real node, the real command line, and the real client, from the first timer to the last."""

import json
import os
import signal
import subprocess
import time

import pytest

from duetime.cli.devkey import read_key
from duetime.client import Client, ServiceError
from tests.cli.conftest import PROGRAM
from tests.outputs import OUTPUTS, HeardProcess
from tests.ports import free_port
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow


class Node:
    def __init__(self, directory) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.receiver = f"http://127.0.0.1:{self.port + 1}"
        self.directory = directory
        command = [*PROGRAM, "dev", "--port", str(self.port)]
        self.process = HeardProcess(
            command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.wait_for("listens on")
        self.key = read_key(directory / "data" / "duetime.key")

    def wait_for(self, text: str) -> str:
        while text not in (line := self.process.stdout.readline()):
            assert line, "the node ended"
        return line

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, *argv],
            cwd=self.directory,
            env={**os.environ, "DUETIME_URL": self.url},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    running = Node(tmp_path_factory.mktemp("node"))
    yield running
    running.process.send_signal(signal.SIGINT)
    out, _ = running.process.communicate(timeout=40)
    assert running.process.returncode == 0
    assert "Traceback" not in out


@pytest.fixture
def client(node):
    with Client(node.url, api_key=node.key) as client:
        yield client


def test_a_timer_made_on_the_command_line_is_delivered(node):
    """With the key that dev keeps, and seen by dev's own receiver."""
    argv = ["--in", "300ms", "--url", f"{node.receiver}/hi", "--data", '{"n": 1}', "--id", "first"]
    assert node.run("timer", "create", *argv).returncode == 0
    arrived = node.wait_for("/hi")
    assert "attempt 1" in arrived
    assert arrived.endswith('{"n": 1}\n')
    shown = node.run("timer", "get", "--id", "first")
    watched = node.run("timer", "watch", shown.stdout.split()[1])
    assert (watched.returncode, watched.stderr) == (0, "")
    assert "completed" in watched.stdout
    attempts = node.run("timer", "attempts", "--id", "first").stdout
    assert attempts.splitlines()[1].split()[0] == "1"
    assert " ok " in attempts


def test_the_client_does_all_that_the_api_can(client, node):
    """Each method against the real service."""
    callback = {"type": "http", "url": node.receiver}
    timer = client.create(delay="1h", callback=callback, timer_id="a/b", tags=["t"], name="n")
    assert client.get_by_key("default", "a/b")["id"] == timer["id"]
    assert client.update(timer["id"], delay="2h", if_version=1)["version"] == 2
    with pytest.raises(ServiceError) as stale:
        client.cancel(timer["id"], if_version=1)
    assert (stale.value.status, stale.value.code) == (412, 6)
    assert client.pause(timer["id"])["status"] == "paused"
    assert client.resume(timer["id"])["status"] == "pending"
    replaced = client.put_by_key("default", "a/b", delay="3h", callback=callback)
    assert replaced["id"] == timer["id"]
    assert client.cancel_by_key("default", "a/b")["status"] == "canceled"
    assert client.attempts(timer["id"])["attempts"] == []
    assert client.health()["status"] == "up"
    client.ready()


@pytest.mark.promise("one-timer-per-key")
def test_the_same_request_again_is_the_same_timer(client, node):
    """A create that is repeated with its idempotency key finds the timer that it made."""
    callback = {"type": "http", "url": node.receiver}
    one = client.create(delay="1h", callback=callback, idempotency_key="once")
    assert client.create(delay="1h", callback=callback, idempotency_key="once")["id"] == one["id"]


def test_a_batch_and_its_list(client, node):
    """One that is wrong does not stop the others; the list goes by the cursor."""
    good = {"delay": "1h", "callback": {"type": "http", "url": node.receiver}, "tags": ["batch"]}
    answer = client.create_batch([good, {"delay": "never"}, good, good])
    assert (answer["created"], answer["failed"]) == (3, 1)
    assert [item["code"] for item in answer["timers"]] == [0, 2, 0, 0]
    found = [timer["id"] for timer in client.list(tag="batch", limit=2, order="asc")]
    made = [item["data"]["id"] for item in answer["timers"] if item["data"]]
    assert found == sorted(made)  # of one millisecond: the order is by id


def test_firing_makes_it_due_now(client, node):
    """A timer that is fired is due now, whatever its time was."""
    timer = client.create(delay="1h", callback={"type": "http", "url": f"{node.receiver}/now"})
    client.fire(timer["id"])
    assert "attempt 1" in node.wait_for("/now")


def test_a_tenant_from_its_making_to_its_end(node):
    """With a key that was captured, which opens its own tenant and no other."""
    assert node.run("tenant", "create", "acme", "--quota", "pending=9").returncode == 0
    assert node.run("tenant", "create", "acme").returncode == 5
    updated = node.run("tenant", "update", "acme", "--quota", "batch_size=5", "--json")
    quotas = json.loads(updated.stdout)["quotas"]
    assert (quotas["pending"], quotas["batch_size"]) == (9, 5)
    made = node.run("key", "create", "ci", "--role", "admin", "--tenant", "acme")
    key = made.stdout.strip()
    assert key.startswith("dt_")
    OUTPUTS.keep_key(key)
    assert made.stderr.endswith("is never shown again.\n")
    mine = ("--api-key", key)
    assert node.run("group", "set", "carts", "--timeout", "5s", *mine).returncode == 0
    assert node.run("group", "list", *mine).stdout.splitlines()[1].startswith("carts  ")
    assert node.run("group", "get", "carts").returncode == 3  # the default tenant has none
    assert node.run("group", "get", "carts", "--tenant", "acme").returncode == 0
    assert node.run("tenant", "list", *mine).returncode == 4
    assert node.run("timer", "list", "--tenant", "default", *mine).returncode == 4
    named = ("--tenant", "acme", *mine)
    rotated = node.run("key", "rotate", key, "--valid-for", "1h", *named).stdout.strip()
    assert rotated.startswith("dt_")
    OUTPUTS.keep_key(rotated)
    assert rotated != key
    assert node.run("key", "list", *named).stdout.count(" ci ") == 2
    assert node.run("key", "revoke", key, *named).returncode == 0
    assert node.run("timer", "list", "--api-key", key).returncode == 4
    assert node.run("timer", "list", "--api-key", rotated).stdout == "No timers.\n"
    assert node.run("tenant", "delete", "acme").returncode == 2  # nobody can be asked here
    assert node.run("tenant", "delete", "acme", "--yes").returncode == 0
    assert node.run("tenant", "get", "acme").returncode == 3
    assert " tenant.delete " in node.run("audit", "list", "--tenant", "acme").stdout
    assert '"tenant.delete"' in node.run("audit", "export", "--tenant", "acme").stdout


def test_exit_codes_come_from_the_real_service(node):
    """Not found, unauthorized and invalid each have their exit code."""
    nobody = "01890a5d-ac96-774b-bcce-b302099a8057"
    assert node.run("timer", "get", nobody).returncode == 3
    assert node.run("timer", "get", nobody, "--api-key", "x" * 32).returncode == 4
    assert node.run("timer", "create", "--in", "1s", "--url", "ftp://x").returncode == 2


def test_events_on_the_command_line(node):
    """Those that are kept, and with their positions for machines."""
    argv = ["--in", "1h", "--url", f"{node.receiver}/later", "--id", "heard-of", "--tag", "heard"]
    assert node.run("timer", "create", *argv).returncode == 0
    assert node.run("timer", "cancel", "--id", "heard-of").returncode == 0

    def shown() -> list[str]:
        ended = node.run("events", "--tag", "heard", "--json")
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout.splitlines()

    give_up_at = time.monotonic() + PATIENCE
    while len(lines := shown()) < 2:
        assert time.monotonic() < give_up_at
    created, canceled = map(json.loads, lines)
    assert (created["type"], canceled["type"]) == ("created", "canceled")
    after = node.run(
        "events", "--after", created["position"], "--type", "canceled", "--tag", "heard"
    )
    assert after.stdout.split()[1:3] == ["canceled", "default/heard-of"]
