"""What holds for every run: its surroundings, the order of its tests, what it says at its end."""

import gc
import os
import re
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterable

import hypothesis
import pytest

from duetime.config.table import EVERY
from tests.servers.desk import ASKED, DESK, Offer
from tests.servers.kinds import DATABASES, KINDS

pytest_plugins = ["tests.outputs", "tests.promise_marks", "tests.servers.fixtures"]

EMBEDDED = {
    "memory": "in-process reference",
    "sqlite": f"SQLite {sqlite3.sqlite_version}",
}
_STORES = {*EMBEDDED, *DATABASES}
_OF_OURS = {*(setting.env for setting in EVERY), "DUETIME_URL", "DUETIME_TENANT"}

# Where tests take longest. If one of them were the last to begin, the others would wait for it.
_LONGEST = ("tests/cluster/", "tests/system/")

_ENGINE = re.compile(r"\[(" + "|".join((*EMBEDDED, *KINDS)) + r")(?=[\]-])")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long", action="store_true", help="every fault on every engine, and ten times over"
    )


def pytest_configure() -> None:
    # What a script runs in its background ignores Ctrl-C, and so would the programs of tests.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in _OF_OURS:  # what somebody has set is for their service, not for those of tests
        os.environ.pop(name, None)
    # How long an example takes says more of the machine than of what is tested.
    hypothesis.settings.register_profile("any machine", deadline=None)
    hypothesis.settings.load_profile("any machine")
    gc.disable()  # until all tests are found, which makes a million objects that stay


def pytest_collection_finish() -> None:
    # What is there by now need not be looked through for cycles again and again, and tests make
    # few that matter: a tenth of the time of most of them went into that.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(_LONGEST))
    if config.getoption("--long"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        items[:] = [item for item in items if not item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)


def _engines_of(reports: Iterable[pytest.TestReport]) -> Counter[str]:
    """How many tests ran on each engine.

    The suite of the stores has those as parameters. Of other servers, it is who asked for them.
    """
    ran: Counter[str] = Counter()
    for report in reports:
        asked = {engine for what, engine in report.user_properties if what == ASKED}
        ran.update({*_ENGINE.findall(report.nodeid), *(str(each) for each in asked - _STORES)})
    return ran


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    ran = _engines_of(terminalreporter.stats.get("passed", []))
    if not ran:
        return
    terminalreporter.section("engines")
    offers = terminalreporter.config.pluginmanager.get_plugin(DESK).offers
    for engine in (*EMBEDDED, *KINDS):
        offer = offers.get(engine, Offer())
        version = EMBEDDED.get(engine) or offer.version
        name = f"{engine} ({version})" if version else engine
        verdict = f"{ran[engine]} tests passed" if ran[engine] else "no test passed"
        if reason := offer.reason or offer.failure:
            verdict = f"did not run: {reason}"
        terminalreporter.line(f"{name}: {verdict}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, a whole run that left an engine out has failed."""
    is_worker = hasattr(session.config, "workerinput")
    if (
        is_worker
        or not os.environ.get("CI")
        or session.config.args != session.config.getini("testpaths")
    ):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    ran = _engines_of(reporter.stats.get("passed", []))
    # `-m "not server"` leaves servers out on purpose; a whole run must have them all.
    needed = EMBEDDED.keys() if session.config.option.markexpr else {*EMBEDDED, *KINDS}
    if missing := needed - ran.keys():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.line(f"CI needs every engine; missing: {', '.join(sorted(missing))}", red=True)
