"""Work: how many instructions Duetime takes for a timer, counted and held to a budget."""

import sys

import pytest

from tests.guard import budgets
from tests.guard.works import WORKS

pytest.importorskip("uvloop", reason="the budgets were counted on its event loop")
if sys.implementation.name != "cpython":
    pytest.skip("the budgets are of CPython's instructions", allow_module_level=True)

WASTEFUL = "fire-posted"
A_FEW_PERCENT = 0.03
INSTRUCTIONS_A_ROUND = 3  # of a loop that does nothing


@pytest.mark.parametrize("name", WORKS)
def test_a_timer_takes_no_more_work_than_its_budget(name):
    """Created one by one or in a batch, fired over HTTP or posted: as light as it was."""
    budget = budgets.read().get(budgets.PYTHON, {}).get(name)
    if budget is None:
        pytest.skip(f"no budget for Python {budgets.PYTHON}: `make guard` writes one")
    if problem := budgets.problem(name, budget, budgets.taken(name)):
        pytest.fail(problem, pytrace=False)


def test_a_few_percent_more_work_for_each_attempt_are_noticed():
    """A loop that does nothing fails the guard, which says where it is."""
    before = budgets.taken(WASTEFUL)
    rounds = int(A_FEW_PERCENT * before.instructions / INSTRUCTIONS_A_ROUND)
    problem = budgets.problem(WASTEFUL, before, budgets.taken(WASTEFUL, waste=rounds))
    assert problem is not None
    _, _, heaviest, *_ = problem.splitlines()
    assert heaviest.endswith("guard/waste.py _wasteful.<locals>.wasted")
