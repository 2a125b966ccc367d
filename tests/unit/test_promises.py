"""The promises: the README makes them in the same words, and none of them is without a test."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.promise_marks import problems
from tests.promises import PROMISES

README = Path(__file__).parents[2] / "README.md"


def numbered(text: str) -> list[str]:
    """The items of the numbered list below "What is promised", each on one line."""
    section = text.partition("## What is promised")[2].partition("\n## ")[0]
    items = re.findall(r"^\d+\. (.+(?:\n   .+)*)", section, re.MULTILINE)
    return [" ".join(item.split()) for item in items]


def test_the_readme_makes_the_first_five_word_for_word():
    """What a newcomer reads is what the tests are marked with."""
    assert numbered(README.read_text()) == list(PROMISES.values())[:5]


def holder(name: str) -> SimpleNamespace:
    mark = pytest.mark.promise(name).mark
    return SimpleNamespace(nodeid=f"test_{name}", iter_markers=lambda _: [mark])


def test_a_name_that_is_no_promise_is_told():
    """A misspelt mark would hold nothing, and nobody would notice."""
    told = problems([holder("nevr-lost")], is_whole=False)
    assert told == ["no such promise: nevr-lost, of test_nevr-lost"]


def test_a_promise_without_a_test_is_told():
    """A whole collection must have a test for each of them; a part of it need not."""
    first, *rest = PROMISES
    assert problems([holder(name) for name in rest], is_whole=True) == [f"no test holds {first}"]
    assert problems([holder(name) for name in rest], is_whole=False) == []
    assert problems([holder(name) for name in PROMISES], is_whole=True) == []
