"""At the end of a run, say which engines the stores were tested on."""

import os
import re
import sqlite3
from collections import Counter

import pytest

ENGINES = {
    "memory": "in-process reference",
    "sqlite": f"SQLite {sqlite3.sqlite_version}",
}
_ENGINE = re.compile(r"\[(" + "|".join(ENGINES) + r")\b")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    ran: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        ran.update(_ENGINE.findall(report.nodeid))
    if not ran:
        return
    terminalreporter.section("engines")
    for engine, version in ENGINES.items():
        count = ran[engine]
        verdict = f"{count} tests passed" if count else "did not run"
        terminalreporter.line(f"{engine} ({version}): {verdict}")


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
    ran = {
        engine
        for report in reporter.stats.get("passed", [])
        for engine in _ENGINE.findall(report.nodeid)
    }
    if missing := ENGINES.keys() - ran:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.line(f"CI needs every engine; missing: {', '.join(sorted(missing))}", red=True)
