"""Counting in pieces: none is left out between two, and none is counted twice."""

import pytest

from duetime.stores import Count
from duetime.stores.mysql import counts
from duetime.timer import Status
from tests.factories import insert, make_timer


@pytest.mark.parametrize("piece", [1, 3, 4, 12])
async def test_a_group_that_goes_over_the_edge_of_a_piece(mysql, monkeypatch, piece):
    """Names are compared byte by byte, whatever is in them."""
    monkeypatch.setattr(counts, "PIECE", piece)
    groups = ["", "a", "a\0", "A'\\", "ü"]
    timers = [make_timer(group=group, timer_id=name) for group in groups for name in "bB"]
    failed = [make_timer(group="a", status=Status.FAILED, wake_at=None) for _ in range(2)]
    await insert(mysql, *timers, *failed, make_timer(tenant="default2"))
    assert sorted(await mysql.count("default")) == sorted(
        [Count("a", Status.FAILED, 2), *(Count(group, Status.PENDING, 2) for group in groups)]
    )
