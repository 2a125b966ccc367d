"""Prints every promise with the tests that hold it: ``make promises``."""

import contextlib
import inspect
import io
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.promises import PROMISES
from tests.servers.kinds import KINDS

_ENGINES = {"memory", "sqlite", *KINDS}


class Entry(NamedTuple):
    """A test, or a file that is marked as a whole."""

    place: str
    sentence: str


class Collected:
    """Who holds what, noted before anything is deselected."""

    def __init__(self) -> None:
        self.holders: dict[str, dict[Entry, list[pytest.Item]]] = {name: {} for name in PROMISES}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        every = list(items)
        yield  # in which the marks are checked, and those set that come by themselves
        for item in every:
            for node, mark in item.iter_markers_with_node("promise"):
                for name in mark.args:
                    entry = _entry(item, node)
                    self.holders[name].setdefault(entry, []).append(item)


def _entry(item: pytest.Item, marked: pytest.Collector | pytest.Item) -> Entry:
    if isinstance(marked, pytest.Module):
        return Entry(marked.nodeid, _first_sentence(marked.obj))
    return Entry(item.nodeid.partition("[")[0], _first_sentence(item.obj))


def _first_sentence(documented: object) -> str:
    """The first paragraph of a docstring, on one line."""
    paragraph = (inspect.getdoc(documented) or "").partition("\n\n")[0]
    return " ".join(paragraph.split())


def _remarks(place: str, items: list[pytest.Item]) -> str:
    """How many cases there are, on how many engines, and when they run."""
    remarks = []
    if "::" not in place:
        remarks.append(f"{len({item.nodeid.partition('[')[0] for item in items})} tests")
    elif (cases := len({_case(item) for item in items})) > 1:
        remarks.append(f"{cases} cases")
    always = [item for item in items if not item.get_closest_marker("long")]
    engines = set().union(*map(_engines, items))
    if len(engines) > 1:
        remarks.append(f"on {len(engines)} engines")
        if long := len(engines) - len(set().union(*map(_engines, always))):
            remarks.append(f"{long} of them long")
    elif not always:
        remarks.append("long")
    if all(item.get_closest_marker("slow") for item in items):
        remarks.append("slow")
    return f" ({', '.join(remarks)})" if remarks else ""


def _engines(item: pytest.Item) -> set[str]:
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return {each for each in params if isinstance(each, str)} & _ENGINES


def _case(item: pytest.Item) -> str:
    """What tells it from the other cases of its test, but for the engine."""
    id_ = item.callspec.id if hasattr(item, "callspec") else ""
    for engine in _engines(item):
        id_ = id_.replace(engine, "", 1)
    return id_


def main() -> int:
    collected = Collected()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(["--collect-only", "-qq"], plugins=[collected])
    if code:
        sys.stdout.write(said.getvalue())
        return int(code)
    for name, sentence in PROMISES.items():
        print(f"{name}: {sentence}")
        for entry, items in sorted(collected.holders[name].items()):
            print(f"    {entry.place} - {entry.sentence}{_remarks(entry.place, items)}")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
