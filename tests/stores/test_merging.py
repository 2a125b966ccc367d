"""Events of many shards, read as one list, without reading all of each."""

from random import Random

import pytest

from duetime.stores.merging import FEWEST, merged
from tests.factories import NOW, make_event, make_timer


class Shelves:
    """Events by shard, and how many were read."""

    def __init__(self, events, after=None) -> None:
        self._events = events
        self._after = after
        self.rounds = 0
        self.read = 0

    async def some(self, shards, portion):
        self.rounds += 1
        after = self._after
        parts = [
            [event for event in self._events[shard] if after is None or event.id > after][:portion]
            for shard in shards
        ]
        self.read += sum(map(len, parts))
        return parts


def shelved(counts, seed=1):
    """So many events in each shard, at times that are mixed."""
    dice = Random(seed)
    return {
        shard: sorted(
            (
                make_event(make_timer(shard=shard), at=NOW + dice.randrange(100_000))
                for _ in range(count)
            ),
            key=lambda event: event.id,
        )
        for shard, count in enumerate(counts)
    }


@pytest.mark.parametrize("limit", [0, 1, 10, 100, 5_000])
@pytest.mark.parametrize(
    "counts", [[], [0, 0], [300], [200] * 10, [1, 0, 900, 2, 40], [15, 16, 17, 64, 80]]
)
async def test_the_first_of_all(counts, limit):
    """As if all of them were read and sorted, from the beginning and behind any of them."""
    events = shelved(counts)
    whole = sorted((each for some in events.values() for each in some), key=lambda each: each.id)
    assert await merged(events, Shelves(events).some, limit) == whole[:limit]
    if whole:
        middle = len(whole) // 2
        after = whole[middle].id
        found = await merged(events, Shelves(events, after).some, limit)
        assert found == whole[middle + 1 :][:limit]


async def test_a_backlog_is_not_read_as_a_whole():
    """About twice as much as is wanted, in a round or two."""
    events = shelved([500] * 100)
    shelves = Shelves(events)
    assert len(await merged(events, shelves.some, 1_000)) == 1_000
    assert shelves.rounds <= 2
    assert shelves.read <= 100 * (20 + FEWEST)


async def test_one_full_shard_among_many():
    """It is asked again, and the others are not."""
    events = shelved([1_000, *[1] * 99])
    shelves = Shelves(events)
    assert len(await merged(events, shelves.some, 1_000)) == 1_000
    assert shelves.read <= 2_000


async def test_what_becomes_visible_meanwhile_is_not_passed_over():
    """A timer's first event, before what was read already, and its second behind that."""
    events = shelved([500, 1, 1])
    whole = events[0]
    early, late = whole.pop(3), whole[400]
    shelves = Shelves(events)

    async def some(shards, portion):
        parts = await shelves.some(shards, portion)
        if early not in whole:
            whole.insert(3, early)
        return parts

    found = await merged(events, some, 450)
    assert shelves.rounds > 1
    assert late in found
    assert early in found
