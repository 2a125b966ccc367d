"""The rivals: what is installed and started for them, and how their work is judged. No npm here."""

import stat
import sys
from collections import Counter
from contextlib import asynccontextmanager

import msgspec
import pytest

from bench import __main__ as command
from bench.figure import Aim
from bench.meter import Used
from bench.rivals import measuring, npm, opening
from bench.rivals.rival import Made, Place, Rival, RivalFailed
from bench.sizes import QUICK
from bench.workloads import ON_REQUEST, WORKLOADS, rivals
from duetime.benching.receipts import Receipts


class Sleeper(Rival):
    """A rival that has no database, and whose producer says what it is told to."""

    package = "bullmq"
    title = "Sleeper"
    is_metered = True

    def __init__(self, *made):
        self._made = iter(made)
        self.asked = []

    def cpu_seconds(self):
        return 0.0

    @asynccontextmanager
    async def fresh(self):
        yield Place("redis://nowhere")

    async def produce(self, place, sink_port, verb, *numbers):
        self.asked.append((verb, *numbers))
        return next(self._made)


class Told:
    """Progress that remembers what was said."""

    def __init__(self):
        self.said = []

    def begin(self, task, total=0):
        pass

    def say(self, text):
        self.said.append(text)


class Scene:
    """A stage without databases, on which nothing arrives."""

    databases = None
    sizes = QUICK

    def __init__(self):
        self.progress = Told()
        self.sink = self
        self.port = 1


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder of programs that is all of PATH, and a folder with a lock to install from."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "rivals").mkdir()
    (tmp_path / "rivals" / "package-lock.json").write_text("{}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def add(name, lines):
        program = tmp_path / "bin" / name
        program.write_text(f"#!{sys.executable}\n{lines}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    return add


NPM = """
import os
os.makedirs("node_modules", exist_ok=True)
open("node_modules/calls", "a").write("x")
"""


async def test_rivals_are_installed_once(programs, tmp_path):
    """Npm is called again only when the lock is another one."""
    programs("node", "print('v20.18.0')")
    programs("npm", NPM)
    folder = tmp_path / "rivals"
    for lock in ("{}", "{}", '{"packages": {}}', '{"packages": {}}'):
        (folder / "package-lock.json").write_text(lock)
        await npm.install(folder)
    assert (folder / "node_modules" / "calls").read_text() == "xx"


@pytest.mark.parametrize(
    ("node", "npm_says", "message"),
    [
        (None, None, "node is not installed"),
        ("print('v18.20.1')", None, r"v18\.20\.1 is too old .* 20\.18 or newer"),
        ("print('v20.18.0')", None, "npm is not installed"),
        ("print('v20.18.0')", "import sys; sys.exit('no\\nnetwork')", "npm failed with 1: no net"),
    ],
)
async def test_what_is_missing_is_told(programs, tmp_path, node, npm_says, message):
    """Node.js that is missing or too old, and an npm that is missing or fails: each by its name."""
    for name, lines in (("node", node), ("npm", npm_says)):
        if lines is not None:
            programs(name, lines)
    with pytest.raises(npm.NoNode, match=message):
        await npm.install(tmp_path / "rivals")


@pytest.mark.usefixtures("programs")
async def test_without_node_the_rivals_are_left_out():
    """Nothing is started then, no figure is made, and it is said why."""
    scene = Scene()
    async with opening.opened(scene) as found:
        assert found == []
    assert scene.progress.said == [
        "The rivals are left out: node is not installed (the rivals need Node.js and npm)"
    ]


@pytest.mark.usefixtures("programs")
async def test_without_rivals_duetime_is_not_measured_either():
    """Beside nobody its figures are those of the other workloads."""
    assert await rivals.run(Scene()) == []


def test_versions_are_exact_and_locked():
    """What is installed is what was measured: no range, and the lock has the same versions."""
    lock = msgspec.json.decode((npm.FOLDER / "package-lock.json").read_bytes())
    for package, version in npm.versions().items():
        assert version[0].isdigit()
        assert lock["packages"][f"node_modules/{package}"]["version"] == version


def test_the_lock_names_no_registry():
    """So each machine installs from its own."""
    lock = msgspec.json.decode((npm.FOLDER / "package-lock.json").read_bytes())
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]


def test_every_rival_has_its_scripts():
    """One that produces and one that works."""
    for package in ("graphile-worker", "bullmq"):
        assert {path.name for path in (npm.FOLDER / package).iterdir()} == {
            "produce.mjs",
            "work.mjs",
        }


def test_a_rival_that_loses_or_repeats_a_job_is_no_measure():
    """It is said which, and nothing is compared with it."""
    with pytest.raises(RivalFailed, match=r"Sleeper .*: 1 of 3 duplicated, 1 of 3 lost"):
        measuring.checked(Sleeper(), Receipts(count=3, distinct=2, duplicates=1), 3)


def test_a_rival_that_is_early_is_shown_so():
    """Celery is known to be: the figure counts, and says how many came before their time."""
    receipts = Receipts(count=3, distinct=3, early=2)
    assert measuring.checked(Sleeper(), receipts, 3) is receipts
    assert rivals.named(Sleeper(), receipts).endswith(", 2 early")
    assert "early" not in rivals.named(Sleeper(), Receipts())


async def test_creates_are_those_after_the_first_few():
    """The rate is that of what was timed, and all that was made is found."""
    count = QUICK.creates
    rival = Sleeper(Made(seconds=2.0, made=count + 500, stored=count + 500))
    assert await measuring.one_by_one(Scene(), rival) == count / 2
    assert rival.asked == [("singly", count, 64)]


async def test_creates_that_are_not_stored_are_no_measure():
    """A rival that answered for a job that is not there has failed."""
    rival = Sleeper(Made(seconds=2.0, made=5_000, stored=4_999))
    with pytest.raises(RivalFailed, match="4999 jobs are stored, not 5000"):
        await measuring.in_batches(Scene(), rival)


async def test_a_burst_stands_beside_each_rival(monkeypatch):
    """Rates are to be no less, and what they take no more; the database counts on both sides."""

    async def ours(_stage, _count):
        return Receipts(count=101, last_ns=10**9, first_ns=0), Used(1, 1, True)

    async def theirs(_stage, _rival):
        return Receipts(count=51, last_ns=10**9, first_ns=0), Used(3, 1, True)

    monkeypatch.setattr(rivals.burst, "fired", ours)
    monkeypatch.setattr(rivals.measuring, "fired", theirs)
    figures = await rivals.bursts(Scene(), [Sleeper(), Sleeper()])
    assert [(figure.ratio, figure.is_met) for figure in figures] == [(2, True)] * 2 + [
        (0.5, True)
    ] * 2
    assert Counter(figure.aim for figure in figures) == {
        Aim("ratio >=", 1): 2,
        Aim("ratio <=", 1): 2,
    }


@pytest.mark.parametrize(
    ("arguments", "has_rivals"), [([], False), (["--quick"], False), (["--only", "w10"], True)]
)
def test_rivals_are_measured_only_if_they_are_named(monkeypatch, arguments, has_rivals):
    """A plain run needs neither npm nor a network."""
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    assert ("w10" in command._options().names) == has_rivals
    assert set(WORKLOADS) > ON_REQUEST
