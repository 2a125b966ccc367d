"""Shards in use: which partitions hold anything, and where what is due begins in each.

There may be thousands of shards, and nobody reads a partition to see that it is empty. So a shard
is written down before anything is put into it, and stays there. That list is one small read.
"""

import asyncio
from collections.abc import Collection

from duetime.stores import Due
from duetime.stores.cassandra.rows import BEGINNING
from duetime.stores.cassandra.session import Session
from duetime.stores.portions import parts

_READ = "SELECT shard, head_at, head_id FROM duetime.shards WHERE everything = 0"
_OPEN = "INSERT INTO duetime.shards (everything, shard) VALUES (0, ?)"
_HEAD = "INSERT INTO duetime.shards (everything, shard, head_at, head_id) VALUES (0, ?, ?, ?)"

_AT_ONCE = 500  # rows in a write


class Shards:
    """What is known of the list. It only grows, and the heads known here only rise.

    A stored one may sink, when somebody who knew less writes his. That does no harm, and nor does
    what is old: nothing is left below the higher one, so who begins at the lower one reads in vain.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._heads: dict[int, Due | None] = {}
        self._new: set[int] = set()  # that nobody had written to before us
        self._is_read = False
        self._opening = asyncio.Lock()

    async def read(self) -> dict[int, Due | None]:
        """The shards in use, and the head of each; None where it has none."""
        for shard, at, id_ in await self._session.run(_READ):
            self._keep(shard, None if at is None else Due(at, id_))
        self._is_read = True
        return dict(self._heads)

    async def read_once(self) -> dict[int, Due | None]:
        """The same, as it was when it was last read."""
        return dict(self._heads) if self._is_read else await self.read()

    def head(self, shard: int) -> Due | None:
        """The head of a shard, or one that it had."""
        return self._heads.get(shard)

    async def open_all(self, shards: Collection[int]) -> None:
        """Write these down, if they are not."""
        if self._heads.keys() >= set(shards):
            return
        async with self._opening:
            if not self._is_read:
                await self.read()
            missing = sorted(set(shards) - self._heads.keys())
            for part in parts(missing, _AT_ONCE):
                await self._session.run_batch([(_OPEN, (shard,)) for shard in part])
                self._new.update(part)
                for shard in part:
                    self._heads.setdefault(shard, None)

    async def open(self, shard: int) -> bool:
        """Write it down, if it is not; tells whether it is likely to be empty."""
        await self.open_all((shard,))
        is_new = shard in self._new
        self._new.discard(shard)
        return is_new

    async def mark(self, shard: int) -> None:
        """From now on, whoever reads what is due reads the late ones too."""
        if self._heads.get(shard) is None:
            await self.raise_head(shard, BEGINNING)

    async def raise_head(self, shard: int, head: Due) -> None:
        """Nothing that is due is left below it."""
        await self._session.run(_HEAD, (shard, *head))
        self._keep(shard, head)

    def _keep(self, shard: int, head: Due | None) -> None:
        known = self._heads.get(shard)
        self._heads[shard] = head if known is None or (head is not None and head > known) else known
