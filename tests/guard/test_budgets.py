"""Budgets: what is said of a work that does not keep to its own, and how they are written."""

import pytest

from tests.guard import budgets
from tests.guard.budgets import SLACK, TOLERANCE, Taken

BUDGET = Taken(1000.0, 50.0, {"duetime/a.py hot": 400.0, "duetime/b.py cold": 100.0})


def grown(**fields):
    return budgets.problem("fire-http", BUDGET, BUDGET._replace(**fields))


@pytest.mark.parametrize("share", [-0.9 * SLACK, 0, 0.9 * TOLERANCE])
def test_a_work_within_its_budget_is_no_problem(share):
    """A little more or less is nothing to speak of."""
    assert grown(instructions=1000 * (1 + share)) is None


def test_more_instructions_are_a_problem_that_names_the_function():
    """Whoever reads it knows by how much, where, and what to do."""
    functions = {"duetime/a.py hot": 450.0, "duetime/b.py cold": 99.0, "duetime/c.py new": 20.0}
    text = grown(instructions=1069.0, functions=functions)
    first, head, *rows, advice = text.splitlines()
    assert "6.9% more instructions" in first
    assert head.split() == ["budget", "now", "change", "function"]
    assert [row.split() for row in rows] == [
        ["400.0", "450.0", "+50.0", "duetime/a.py", "hot"],
        ["few", "20.0", "+15.0", "duetime/c.py", "new"],
        ["100.0", "99.0", "-1.0", "duetime/b.py", "cold"],
    ]
    assert "make guard" in advice


def test_more_calls_are_a_problem():
    """Also where there are no more instructions: a call costs more than most of them."""
    assert "10.0% more calls" in grown(calls=55.0)


def test_a_budget_that_is_much_too_large_is_a_problem():
    """What was won could be lost again unseen."""
    text = grown(instructions=900.0)
    assert "10.0% fewer instructions" in text
    assert "make guard" in text


def test_budgets_of_other_versions_of_python_stay(tmp_path):
    """Each version is written where it is used."""
    file = tmp_path / "budgets.json"
    budgets.write({"fire-http": BUDGET}, file, "3.13")
    budgets.write({"fire-http": BUDGET._replace(calls=1.0)}, file, "3.9")
    again = BUDGET._replace(calls=2.0)
    budgets.write({"fire-http": again}, file, "3.9")
    assert budgets.read(file) == {"3.9": {"fire-http": again}, "3.13": {"fire-http": BUDGET}}
    assert list(budgets.read(file)) == ["3.9", "3.13"]
