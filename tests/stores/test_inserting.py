"""Inserting: who is not written is told whose his key or his id is, or is tried again."""

import pytest

from duetime.errors import StoreUnavailable
from duetime.stores import Insert, Key
from duetime.stores.inserting import insert_all, owners_of
from tests.factories import make_timer


class Engine:
    """Writes what each try lets it write, and notes what it was asked."""

    def __init__(self, *writable, owned=None):
        self.owned = owned or {}
        self.tried = []
        self.ways = [self._way(places) for places in writable]

    def _way(self, places):
        async def way(left):
            self.tried.append([place for place, _ in left])
            return set(places)

        return way

    async def owners(self, timers):
        return [self.owned.get(timer.id) for timer in timers]


async def test_nobody_is_looked_for_when_all_are_written():
    """One try, and no read."""
    engine = Engine({0, 1}, {9})
    engine.owners = None
    inserts = [Insert(make_timer()) for _ in range(2)]
    assert await insert_all(inserts, engine.ways, engine.owners, "An engine") == [None, None]
    assert engine.tried == [[0, 1]]


async def test_who_lost_to_somebody_is_told_and_the_others_are_tried_again():
    """Each way is tried with those that are left, under their first places."""
    inserts = [Insert(make_timer()) for _ in range(4)]
    owner = make_timer()
    engine = Engine({0}, {1, 3}, owned={inserts[2].timer.id: owner})
    answers = await insert_all(inserts, engine.ways, engine.owners, "An engine")
    assert answers == [None, None, owner, None]
    assert engine.tried == [[0, 1, 2, 3], [1, 3]]


async def test_not_for_ever():
    """When the last way has failed too, somebody hears of it."""
    engine = Engine(set(), set())
    with pytest.raises(StoreUnavailable, match="An engine: timers with the same keys come and go"):
        await insert_all([Insert(make_timer())], engine.ways, engine.owners, "An engine")
    assert engine.tried == [[0], [0]]


async def test_the_key_comes_before_the_id():
    """As the contract has it; and who is nobody's has no owner."""
    timers = [make_timer() for _ in range(3)]
    by_key, by_id = make_timer(), make_timer()

    async def get(asked):
        assert asked == [timer.id for timer in timers]
        return [by_id, by_id, None]

    async def get_by_key(asked):
        assert asked == [Key.of(timer) for timer in timers]
        return [by_key, None, None]

    assert await owners_of(timers, get, get_by_key) == [by_key, by_id, None]
