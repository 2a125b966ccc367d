"""The mark ``promise``: a test carries the name of what it tries to break.

A name that is no promise fails the run, and so does a promise without a test.
"""

import pytest

from tests.promises import PROMISES


@pytest.hookimpl(tryfirst=True)  # before `-m` and `--long` leave tests out
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    for problem in problems(items, is_whole=_is_whole(session, config)):
        # A file that cannot be collected is told like this, by the workers of pytest-xdist too.
        report = pytest.CollectReport("tests/promises.py", "failed", problem, [])
        config.hook.pytest_collectreport(report=report)


def problems(items: list[pytest.Item], *, is_whole: bool) -> list[str]:
    """Names that are no promise, and promises that nobody holds though all tests are there."""
    holders = {name: item.nodeid for item in items for name in names_of(item)}
    found = [f"no such promise: {name}, of {holders[name]}" for name in holders.keys() - PROMISES]
    if is_whole:
        found += [f"no test holds {name}" for name in PROMISES.keys() - holders]
    return sorted(found)


def names_of(item: pytest.Item) -> set[str]:
    """The promises that a test is marked with, by itself or with its whole file."""
    return {name for mark in item.iter_markers("promise") for name in mark.args}


def _is_whole(session: pytest.Session, config: pytest.Config) -> bool:
    """Whether every test there is was collected. What is left out by `-m` has been by now."""
    narrowed = any(
        config.getoption(name, None) for name in ("keyword", "ignore", "ignore_glob", "lf")
    )
    # A file that cannot be imported is told of by pytest itself.
    return config.args == config.getini("testpaths") and not narrowed and not session.testsfailed
