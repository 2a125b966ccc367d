"""A backlog is spread over as many shards as the nodes that are measured."""

import pytest

from bench.backlog import far_timers, spread_over
from duetime import ids


@pytest.mark.parametrize("shards", [1, 16])
def test_timers_lie_in_all_shards_and_no_others(monkeypatch, shards):
    """What is pending stands in the way of what is polled, or it would say nothing."""
    monkeypatch.setenv("NUM_SHARDS", "the test's own")  # so that it is put back afterwards
    spread_over(shards)
    found = {ids.shard_of(timer.id) for timer in far_timers(1_000)}
    assert found == {ids.spread_shard(shards) for _ in range(1_000)}
    assert len(found) == shards
