"""The layout: over how many shards timers are spread, agreed on once."""

import asyncio

import pytest

from duetime.errors import ConfigurationError
from duetime.layout import agree_on_shards
from duetime.stores.memory import MemoryStore
from duetime.testing import FlakyStore


async def test_the_store_decides_unless_told():
    """A fresh database gets as many as suit its engine."""
    store = MemoryStore()
    assert await agree_on_shards(store) == store.traits.num_shards


async def test_who_comes_first_decides():
    """And everybody after that gets the same."""
    store = MemoryStore()
    assert await agree_on_shards(store, 16) == 16
    assert await agree_on_shards(store) == 16
    assert await agree_on_shards(store, 16) == 16


async def test_another_number_is_refused():
    """With the number that it must be."""
    store = MemoryStore()
    await agree_on_shards(store, 16)
    with pytest.raises(ConfigurationError, match=r"NUM_SHARDS: .* 16 shards, and that never"):
        await agree_on_shards(store, 17)


async def test_of_two_at_once_one_decides():
    """The other hears of it: both looked before either had written."""

    class Slow(FlakyStore):
        """A store in which everybody looks before anybody writes."""

        def __init__(self):
            super().__init__(MemoryStore())
            self.looked = asyncio.Barrier(2)
            self.looks = 0

        async def records(self, kind):
            found = await self.store.records(kind)
            self.looks += 1
            if self.looks <= 2:
                await self.looked.wait()
            return found

    store = Slow()
    answers = await asyncio.gather(
        agree_on_shards(store, 8), agree_on_shards(store, 9), return_exceptions=True
    )
    assert {type(answer) for answer in answers} == {int, ConfigurationError}
