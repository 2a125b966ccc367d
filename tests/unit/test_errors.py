"""The tree of errors that the docstring draws is the real one."""

import inspect
import re

import pytest

from duetime import errors
from duetime.errors import DuetimeError, IllegalTransition, StoreUnavailable, Unanswered, gravest


def drawn() -> dict[str, str | None]:
    """Each class of the docstring's tree, and the one it hangs from."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"^    ([│├└─ ]*)(\w+)(?:\s{2,}\S|$)", line):
            depth = len(match[1]) // 4
            del path[depth:]
            parents[match[2]] = path[-1] if path else None
            path.append(match[2])
    return parents


def test_docstring_is_the_tree():
    """Every class stands in the drawing, below its base, and nothing else does."""
    real = {
        name: None if cls is DuetimeError else cls.__base__.__name__
        for name, cls in inspect.getmembers(errors, inspect.isclass)
        if cls.__module__ == errors.__name__
    }
    assert drawn() == real


def test_all_have_one_base():
    """Everything that Duetime raises on purpose can be caught as one."""
    for name, cls in inspect.getmembers(errors, inspect.isclass):
        assert issubclass(cls, DuetimeError), name
        assert cls.__doc__, name


@pytest.mark.parametrize("action", ["cancel", "update"])
def test_words_of_a_refusal(action: str):
    """A refusal has the words of the specification, and says what it is about."""
    error = IllegalTransition(action, "completed")
    assert str(error) == f"cannot {action} timer with status 'completed'"
    assert (error.action, error.status) == (action, "completed")


def test_the_gravest_failure_is_the_one_that_may_go_on():
    """If none may, it is the first."""
    over, other, under_way = StoreUnavailable("a"), StoreUnavailable("b"), Unanswered("c")
    assert gravest([over, other]) is over
    assert gravest([over, under_way, other]) is under_way
