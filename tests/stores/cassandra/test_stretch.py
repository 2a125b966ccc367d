"""A stretch that cannot be read at once: cut where it must be, and only there."""

from bisect import bisect_left, bisect_right
from contextlib import suppress

import pytest
from cassandra import ReadFailure

from duetime import ids
from duetime.stores import Due
from duetime.stores.cassandra import cuts as cutting
from duetime.stores.cassandra.cuts import Cuts, middles
from duetime.stores.cassandra.rows import BEGINNING
from duetime.stores.cassandra.stretch import MOST_FAILURES, Patience, Stretch
from tests.factories import NOW

MANY = 100  # dead ones that a read may not meet
LAST = Due(NOW + 60_000, "~")


class Partitions:
    """What answers for a crowd: the same dead lines in all shards, and a few that live."""

    def __init__(self, dead, living=()):
        self.dead, self.living = sorted(dead), sorted(living)
        self.asked = 0
        self.failed = 0

    async def ask(self, statement, shard, values):
        _, *place, _, at, id_, size = values
        one, other = Due(*place), Due(at, id_)
        low, high = sorted((one, other))
        rows = [line for line in self.living if low < line <= high]
        if one > other:
            rows = [line for line in self.living if low <= line < high][::-1]
        self.asked += 1
        if bisect_right(self.dead, high) - bisect_left(self.dead, low) >= MANY:
            self.failed += 1
            raise ReadFailure("too many")
        return rows[:size]

    ask_alone = ask

    def stretch(self, cuts, shard=1, place=BEGINNING, end=LAST):
        return Stretch(
            self, cuts, "q", kind=2, shard=shard, place=place, end=end, patience=Patience()
        )


async def read(stretch, size=10):
    found = []
    while not stretch.is_over:
        found += await stretch.read(size)
    return found


async def find_cuts(partitions, cuts, **bounds):
    """Read by as many calls as it takes."""
    for _ in range(5):
        stretch = partitions.stretch(cuts, **bounds)
        with suppress(ReadFailure):
            return await read(stretch)
        assert stretch.is_given_up
    raise AssertionError("it cannot be read")


def lines(count, span=1, at=NOW):
    """Lines of timers that were made over an hour, due within so many milliseconds."""
    return [Due(at + n % span, ids.new_id(NOW - n * 3_600_000 // count, 1)) for n in range(count)]


def test_parts_are_cut_by_time_and_then_by_id():
    """In order, and strictly inside; between neighbours there is nothing to cut."""
    assert [place.wake_at for place in middles(Due(800, ""), Due(1600, ""))] == [
        *range(900, 1600, 100)
    ]
    within = middles(Due(5, ""), Due(5, "~"))
    assert [place.id[:2] for place in within] == ["20", "40", "60", "80", "a0", "c0", "e0"]
    assert {place.wake_at for place in within} == {5}
    id_ = ids.new_id(NOW, 1)
    near = middles(Due(5, id_[:-1]), Due(5, f"{id_}~"))
    assert near == sorted(near)
    assert all(Due(5, id_[:-1]) < place < Due(5, f"{id_}~") for place in near)
    assert middles(Due(5, id_), Due(5, id_)) == []
    assert middles(Due(5, id_), Due(5, f"{id_}0")) == []
    assert all(place > BEGINNING for place in middles(BEGINNING, LAST))


@pytest.mark.parametrize("span", [1, 7, 60_000])
@pytest.mark.parametrize("is_descending", [False, True])
async def test_all_that_lives_is_found(span, is_descending):
    """Wherever the dead are, in the order asked for, and each once."""
    every = lines(1_000, span)
    partitions = Partitions(every[30:], every[:30])
    bounds = (LAST, BEGINNING) if is_descending else (BEGINNING, LAST)
    place, end = bounds
    cuts = Cuts()
    await find_cuts(partitions, cuts, place=place, end=end)
    found = await read(partitions.stretch(cuts, place=place, end=end))
    assert found == sorted(every[:30], reverse=is_descending)


async def test_cuts_are_remembered_and_those_that_do_nothing_are_left_out():
    """Reads do not begin with what failed, and in the end there are hardly more than needed."""
    partitions, cuts = Partitions(lines(1_000)), Cuts()
    await find_cuts(partitions, cuts)
    at_first = len(cuts.of(1))
    for _ in range(10):
        before = partitions.failed
        await read(partitions.stretch(cuts))
        assert partitions.failed - before <= 2  # by one that was left out, shared and alone
    for _ in range(at_first * 3):
        await read(partitions.stretch(cuts))
    assert 9 <= len(cuts.of(1)) <= 20 < at_first
    before = partitions.failed
    for _ in range(10):
        await read(partitions.stretch(cuts))
    assert partitions.failed == before


async def test_shards_take_over_the_cuts_of_others():
    """Where the dead lie alike, only the first has to look for them."""
    partitions, cuts = Partitions(lines(1_000)), Cuts()
    await find_cuts(partitions, cuts, shard=1)
    first, partitions.failed = partitions.failed, 0
    assert first > 10
    await read(partitions.stretch(cuts, shard=2))
    assert partitions.failed == 2  # shared, and alone
    assert cuts.of(1) == cuts.of(2)


async def test_what_never_can_be_read_is_given_up_in_time():
    """Who asks is told after so many tries; who asks again goes on where that one ended."""
    partitions, cuts = Partitions(lines(1) * MANY), Cuts()
    for is_given_up in (True, True, False, False):
        before, stretch = partitions.failed, partitions.stretch(cuts)
        with pytest.raises(ReadFailure):
            await read(stretch)
        assert stretch.is_given_up is is_given_up  # or else, there is nothing more to cut
        assert partitions.failed - before <= MOST_FAILURES + 1


async def test_stretches_share_their_patience():
    """What cannot be read soon is left, and what can be is read, however many fail."""
    partitions, cuts, patience = Partitions(lines(1_000)), Cuts(), Patience()
    patience.left = 3
    bad, good = partitions.stretch(cuts), Partitions(lines(9)).stretch(cuts, shard=2)
    worse = partitions.stretch(cuts, shard=3)
    for stretch in (bad, good, worse):
        stretch._patience = patience
    for stretch in (bad, worse):
        with pytest.raises(ReadFailure):
            await read(stretch)
    assert partitions.failed <= 3 + 3  # those, one that was shared of each, and the last one alone
    assert await read(good) == []


async def test_cuts_are_bounded(monkeypatch):
    """When there are too many they are found anew."""
    monkeypatch.setattr(cutting, "MOST", 60)
    cuts = Cuts()
    for start in range(0, 4_000, 100):
        await read(Partitions(lines(300, 50, NOW + start)).stretch(cuts))
        assert len(cuts.of(1)) <= 60 + cutting.PARTS


async def test_what_nobody_reads_any_more_is_forgotten():
    """Below the head there are no cuts; above, they stay."""
    cuts = Cuts()
    assert cuts.cut(1, Due(0, ""), Due(80, ""))
    cuts.leave_one_out(1, Due(0, ""), Due(80, ""))
    cuts.forget(1, Due(50, "0"))
    assert [place.wake_at for place in cuts.of(1)] == [50, 60, 70]
    cuts.forget(1, Due(90, ""))
    assert not cuts.of(1)
