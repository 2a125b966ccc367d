"""Which part of a limit of the whole cluster is one node's."""

import pytest

from duetime.tenancy.shares import rate_share, seats

pytestmark = pytest.mark.promise("limits-hold")


@pytest.mark.parametrize("asked", [[0, 0, 0], [5, 0, 0], [1, 2, 3], [1e6, 1, 0.01]])
def test_the_shares_of_a_rate_are_all_of_it(asked):
    """Nobody's share is lost, and nobody is left without one."""
    shares = [
        rate_share(mine, asked[:number] + asked[number + 1 :], 0.03)
        for number, mine in enumerate(asked)
    ]
    assert sum(shares) == pytest.approx(1)
    assert min(shares) >= 0.01


@pytest.mark.parametrize("total", [3, 4, 7, 20, 1_000])
@pytest.mark.parametrize("asked", [[0, 0, 0], [5, 0, 0], [1, 2, 3], [100, 104, 97], [1e6, 1, 0.01]])
def test_the_places_of_all_nodes_are_as_many_as_were_set(total, asked):
    """Each has one at least, and who asks for much more has no fewer than who asks for less."""
    nodes = dict(zip("abc", asked, strict=True))
    given = {node: seats(total, node, nodes) for node in nodes}
    assert sum(given.values()) == total
    assert min(given.values()) >= 1
    assert given[max(nodes, key=nodes.__getitem__)] >= max(given.values()) - 1


def test_where_there_are_fewer_places_than_nodes_each_has_one():
    """No node keeps its timers for ever."""
    assert [seats(2, node, {"a": 9, "b": 0, "c": 1}) for node in "abc"] == [1, 1, 1]


def test_a_small_change_of_demand_moves_no_place():
    """Places that move may be used twice for a moment."""
    before = [seats(7, node, {"a": 100, "b": 100, "c": 100}) for node in "abc"]
    after = [seats(7, node, {"a": 97, "b": 104, "c": 101}) for node in "abc"]
    assert before == after
