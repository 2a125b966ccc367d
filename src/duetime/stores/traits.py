"""Traits: what an engine can do and what it cannot, said once.

The refusals that users see and the tables of docs/stores.md are made from them, so that neither can
go stale.
"""

from typing import Literal

import msgspec

from duetime.errors import UnsupportedQuery
from duetime.stores import Query

Filtering = Literal["index", "reading"]


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine can do."""

    engine: str  # as its makers call it
    nodes: Literal["one process", "one machine", "many"]  # who may share a database
    passes_news: bool  # whether nodes hear of each other's timers before their polls
    # How lists are filtered: by an index; or by reading along in the order of creation, such that a
    # page may end before it is full, with a cursor to go on from.
    filtering: Filtering = "index"
    sorts_by_time: bool = True  # lists in the order of execute_at
    counts: bool = True  # how many timers match
    skips: int | None = None  # the largest offset, if there is one
    drops_by_itself: bool = False  # finished timers expire in the engine, unasked
    num_shards: int = 256  # that timers are spread over, unless somebody says otherwise

    def check(self, query: Query) -> None:
        """Raise UnsupportedQuery if the engine cannot answer, with the name of the parameter."""
        if query.sort == "execute_at" and not self.sorts_by_time:
            raise UnsupportedQuery(
                f"sort: {self.engine} lists timers in the order of created_at only"
            )
        if query.with_total and not self.counts:
            raise UnsupportedQuery(f"total: {self.engine} does not count timers")
        if self.skips is not None and query.offset > self.skips:
            raise UnsupportedQuery(
                f"offset: with {self.engine} it ends at {self.skips:,}; go on with cursor instead"
            )
