"""A backlog is spread over as many shards as the nodes that are measured."""

import msgspec
import pytest

from bench.backlog import far_rows, far_timers, spread_over
from duetime import ids
from duetime.stores.codec import COLUMNS, to_columns
from duetime.timer import Spec


@pytest.mark.parametrize("shards", [1, 16])
def test_timers_lie_in_all_shards_and_no_others(monkeypatch, shards):
    """What is pending stands in the way of what is polled, or it would say nothing."""
    monkeypatch.setenv("NUM_SHARDS", "the test's own")  # so that it is put back afterwards
    spread_over(shards)
    found = {ids.shard_of(timer.id) for timer in far_timers(1_000)}
    assert found == {ids.spread_shard(shards) for _ in range(1_000)}
    assert len(found) == shards


def test_rows_are_what_a_store_would_make_of_such_timers():
    """They are made from a pattern, since ten million of them are many; the result is the same."""
    for row, timer in zip(far_rows(50), far_timers(50), strict=True):
        values = dict(zip(COLUMNS, row, strict=True))
        spec = msgspec.json.decode(values["spec"], type=Spec)
        again = msgspec.structs.replace(
            timer,
            id=values["id"],
            timer_id=values["id"],
            execute_at=values["execute_at"],
            wake_at=values["wake_at"],
            created_at=values["created_at"],
            updated_at=values["updated_at"],
            spec=msgspec.structs.replace(timer.spec, correlation_id=values["id"]),
        )
        assert spec == again.spec
        assert tuple(row) == to_columns(again)


def test_no_two_rows_share_an_id_and_none_is_due_today():
    """However many there are."""
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in far_rows(2_000)]
    assert len({row["id"] for row in rows}) == 2_000
    assert all(row["execute_at"] - row["created_at"] >= 86_400_000 for row in rows)
    assert list(far_rows(0)) == []
