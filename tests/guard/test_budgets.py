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


def test_each_version_of_python_has_its_own_budgets(tmp_path):
    """They are counted where it is used, and those of others stay."""
    file = tmp_path / "budgets.json"
    assert budgets.write({"fire-http": BUDGET}, file, "3.13") == ()
    assert budgets.write({"fire-http": BUDGET._replace(calls=1.0)}, file, "3.9") == ()
    almost = BUDGET._replace(instructions=1001.0)
    assert budgets.write({"fire-http": almost}, file, "3.13") == ()
    read = budgets.read(file)
    assert list(read) == ["3.9", "3.13"]
    assert read["3.13"] == {"fire-http": almost}


def test_a_work_that_has_changed_has_no_budget_on_other_versions(tmp_path):
    """There it would be held to what it was before."""
    file = tmp_path / "budgets.json"
    budgets.write({"fire-http": BUDGET}, file, "3.12")
    budgets.write({"fire-http": BUDGET}, file, "3.13")
    changed = BUDGET._replace(instructions=1500.0)
    assert budgets.write({"fire-http": changed}, file, "3.13") == ("3.12",)
    assert budgets.read(file) == {"3.13": {"fire-http": changed}}
    assert budgets.write({"fire-http": changed}, file, "3.12") == ()
    assert list(budgets.read(file)) == ["3.12", "3.13"]
