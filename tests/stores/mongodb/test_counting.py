"""Counting in pieces: none is left out between two, and none is counted twice."""

import pytest

from duetime.stores import Count
from duetime.stores.mongodb import counting
from duetime.timer import Status
from tests.factories import insert, make_timer


@pytest.mark.parametrize("piece", [1, 3, 4, 12])
async def test_a_group_that_goes_over_the_edge_of_a_piece(mongodb, monkeypatch, piece):
    """And where a piece ends with the last timer, the next one finds nothing more."""
    monkeypatch.setattr(counting, "PIECE", piece)
    timers = [make_timer(group=group) for group in "abab" for _ in range(2)]
    failed = [make_timer(group="a", status=Status.FAILED, wake_at=None) for _ in range(4)]
    await insert(mongodb, *timers, *failed, make_timer(tenant="default2"))
    assert sorted(await mongodb.count("default")) == [
        Count("a", Status.FAILED, 4),
        Count("a", Status.PENDING, 4),
        Count("b", Status.PENDING, 4),
    ]
