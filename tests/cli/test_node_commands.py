"""serve, dev and migrate: what they hand to the node, and what they refuse."""

import re
import sqlite3
import stat
import sys
from contextlib import closing
from types import ModuleType

import pytest

from duetime.cli import build_parser
from duetime.cli.devkey import keep_key, keep_secrets_key, key_path, read_key, secrets_key_path
from duetime.config.table import TABLE
from duetime.errors import ConfigurationError
from duetime.stores.memory import MemoryStore
from duetime.vault import parse_key
from tests.ports import free_port

KEY = "k" * 40


@pytest.fixture
def nodes(monkeypatch):
    """Keeps the settings of every node that would have been run."""
    started = []
    module = ModuleType("duetime.cli.node")

    def run_node(settings, *, dev):
        started.append((settings, dev))
        return 7

    module.run_node = run_node
    monkeypatch.setitem(sys.modules, "duetime.cli.node", module)
    return started


def test_serve_refuses_to_start_without_a_key(run, nodes):
    """And says how to make one."""
    ended = run("serve")
    assert ended.code == 2
    assert ended.err.startswith("duetime: API_KEY: is not set")
    assert "secrets.token_urlsafe(32)" in ended.err
    assert nodes == []


def test_serve_runs_a_node_by_its_settings(run, nodes, monkeypatch):
    """Flags over environment; its exit code is the command's."""
    monkeypatch.setenv("API_KEY", KEY)
    monkeypatch.setenv("PORT", "1000")
    assert run("serve", "--port", "1001", "--retention", "never").code == 7
    ((settings, dev),) = nodes
    assert (settings.api_key, settings.host, settings.port) == (KEY, "0.0.0.0", 1001)
    assert settings.retention is None
    assert not dev


def test_serve_with_workers_runs_a_supervisor(run, nodes, monkeypatch):
    """By the same settings; one worker needs none."""
    started = []
    module = ModuleType("duetime.cli.supervisor")
    module.run_supervisor = lambda settings: started.append(settings) or 7
    monkeypatch.setitem(sys.modules, "duetime.cli.supervisor", module)
    monkeypatch.setenv("API_KEY", KEY)
    assert run("serve", "--workers", "3").code == 7
    assert [settings.workers for settings in started] == [3]
    assert nodes == []
    run("serve", "--workers", "1")
    assert len(started) == len(nodes) == 1


@pytest.mark.parametrize("count", ["0", "65", "two"])
def test_the_number_of_workers_is_checked(count, run, monkeypatch):
    """A number of workers that cannot be is refused by its name."""
    monkeypatch.setenv("API_KEY", KEY)
    ended = run("serve", "--workers", count)
    assert ended.code == 2
    assert ended.err.startswith("duetime: --workers: must be a whole number from 1 to 64")


def test_workers_cannot_share_a_memory(run, monkeypatch):
    """Each would have timers of its own."""
    monkeypatch.setenv("API_KEY", KEY)
    ended = run("serve", "--workers", "2", "--database-url", "memory:///")
    assert ended.code == 2
    assert ended.err.startswith("duetime: WORKERS: must be 1 with memory://")


def test_dev_has_no_workers(run, nodes, monkeypatch):
    """It has no such flag, and is one process whatever the variable says."""
    assert run("dev", "--workers", "2").code == 2
    monkeypatch.setenv("WORKERS", "2")
    assert run("dev").code == 7
    assert len(nodes) == 1


def test_dev_makes_a_key_and_keeps_it(run, nodes, tmp_path):
    """The next start has the same; only its owner may read the file."""
    run("dev")
    run("dev")
    (first, dev), (second, _) = nodes
    path = tmp_path / "data" / "duetime.key"
    assert dev
    assert first.api_key == second.api_key == path.read_text().strip()
    assert len(first.api_key) >= 32
    seals = tmp_path / "data" / "duetime.secrets.key"
    assert first.secrets_key == second.secrets_key == (seals.read_text().strip(),)
    assert len(parse_key(first.secrets_key[0])) == 32
    for each in (path, seals):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    assert {each.name for each in path.parent.iterdir()} == {"duetime.key", "duetime.secrets.key"}


def test_dev_stays_on_this_machine_and_may_call_it(run, nodes):
    """It listens on loopback, and loopback is added to what may be called."""
    run("dev", "--egress-allow", "10.0.0.0/8")
    settings = nodes[0][0]
    assert settings.host == "127.0.0.1"
    assert settings.egress_allow == ("10.0.0.0/8", "127.0.0.0/8", "::1/128")


def test_dev_takes_the_key_that_is_set(run, nodes, monkeypatch, tmp_path):
    """`duetime dev` makes no key where one is set."""
    monkeypatch.setenv("API_KEY", KEY)
    monkeypatch.setenv("SECRETS_KEY", "A" * 43 + "=")
    run("dev")
    assert nodes[0][0].api_key == KEY
    assert nodes[0][0].secrets_key == ("A" * 43 + "=",)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///data/duetime.db", "data/duetime.key"),
        ("sqlite:////var/lib/x.db?a=b", "/var/lib/duetime.key"),
        ("sqlite:///:memory:", "data/duetime.key"),
        ("postgresql://u:p@h/d", "data/duetime.key"),
    ],
)
def test_the_key_lies_beside_the_database(url, path):
    """The file with dev's key lies beside the database, if that is a file."""
    assert str(key_path(url)) == path
    assert secrets_key_path(url) == key_path(url).with_name("duetime.secrets.key")


def test_a_key_file_without_a_key_is_told(tmp_path):
    """A file that holds no key is told of rather than used."""
    path = tmp_path / "duetime.key"
    path.write_text("short\n")
    with pytest.raises(ConfigurationError, match="holds no key; remove it"):
        keep_key(path)


def test_a_file_without_a_secrets_key_is_told(tmp_path):
    """Nobody is advised to remove the key of what they have."""
    path = tmp_path / "duetime.secrets.key"
    path.write_text("hunter2\n")
    with pytest.raises(ConfigurationError, match="can be read with that one only") as told:
        keep_secrets_key(path)
    assert "hunter2" not in str(told.value)


def test_several_secrets_keys_in_the_file(tmp_path):
    """Keys rotate in `duetime dev` too."""
    path = tmp_path / "duetime.secrets.key"
    path.write_text("A" * 43 + "=," + "B" * 43 + "=\n")
    assert keep_secrets_key(path) == ("A" * 43 + "=", "B" * 43 + "=")


def test_dev_starts_where_nothing_can_be_sealed(monkeypatch, tmp_path):
    """Without the library there is no key, and everything else works."""
    monkeypatch.setattr("duetime.cli.devkey.find_spec", lambda _: None)
    assert keep_secrets_key(tmp_path / "duetime.secrets.key") == ()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    """A key that cannot be written down is told of in one sentence."""
    (tmp_path / "data").write_text("a file where a directory should be")
    with pytest.raises(ConfigurationError, match=r"duetime.key: cannot be written: "):
        keep_key(tmp_path / "data" / "duetime.key")


def test_no_key_file_is_no_key(tmp_path):
    """The command line then calls without one."""
    assert read_key(tmp_path / "duetime.key") is None


def test_migrate_brings_the_schema_up_to_date(run, monkeypatch):
    """`duetime migrate` makes the schema, and closes the store."""
    done = []

    class Store(MemoryStore):
        async def migrate(self):
            done.append("migrated")

        async def close(self):
            done.append("closed")

    monkeypatch.setattr(
        "duetime.cli.storage.open_store", lambda url, options: done.append(url) or Store()
    )
    assert run("migrate", "--database-url", "sqlite:///x.db").out == "The schema is up to date.\n"
    assert done == ["sqlite:///x.db", "migrated", "closed"]


def test_the_number_of_shards_never_changes(run, tmp_path):
    """A database that was made with one number refuses another, and says which it has."""
    url = f"sqlite:///{tmp_path}/x.db"
    assert run("migrate", "--database-url", url, "--num-shards", "16").code == 0
    refused = run("migrate", "--database-url", url, "--num-shards", "32")
    assert refused.code == 2
    assert "NUM_SHARDS" in refused.err
    assert "spread over 16 shards" in refused.err


def test_a_node_that_refuses_to_start_leaves_no_record(run, spawn, tmp_path, monkeypatch):
    """Nobody need wait until it would pass for dead."""
    url = f"sqlite:///{tmp_path}/x.db"
    assert run("migrate", "--database-url", url, "--num-shards", "16").code == 0
    monkeypatch.setenv("API_KEY", KEY)
    monkeypatch.setenv("NUM_SHARDS", "32")
    node = spawn("serve", "--database-url", url, "--port", str(free_port()))
    _, err = node.communicate(timeout=20)
    assert node.returncode == 2
    assert "spread over 16 shards" in err
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        assert connection.execute("SELECT DISTINCT kind FROM records").fetchall() == [("layout",)]


def test_help_names_every_setting(run):
    """From the same table that is parsed by."""
    text = " ".join(run("serve", "--help").out.split())
    for setting in TABLE:
        assert setting.env in text
        if setting.flag:
            assert setting.flag in text


def test_every_command_has_help_with_examples(run):
    """Each says what it does and shows how."""
    commands = [["serve"], ["dev"], ["migrate"], ["copy"], ["receiver"], ["timer"]]
    verbs = "create get list cancel fire pause resume attempts watch"
    for command in commands + [["timer", verb] for verb in verbs.split()]:
        ended = run(*command, "--help")
        assert ended.code == 0
        assert "examples:" in ended.out
        assert re.search(rf"^  .*duetime {command[0]}", ended.out, re.MULTILINE)
    assert build_parser().epilog in run("--help").out
