"""Pages: timers are read some at a time, and fewer where they are heavy.

A store gives timers whole, and says only then how heavy they are. So an action begins with few of
them, and reads more with each page as long as they are light. Only where heavy ones follow upon
many light ones, one page of them is heavier than it should be.
"""

from msgspec.structs import replace

from duetime.searching import Read
from duetime.stores import Page, Query

FIRST = 16  # timers in the first page


class Pages:
    """How many timers of one action are read at once, by what those were like that came before."""

    def __init__(self) -> None:
        self._most = FIRST

    def by_weight(self, read: Read, heaviest: int) -> Read:
        """Read as asked, but about so many bytes at most; then the page says where it has ended."""

        async def read_some(query: Query) -> Page:
            limit = min(query.limit, self._most)
            page = await read(replace(query, limit=limit))
            self._learn(page, heaviest)
            if limit == query.limit or len(page.timers) < limit:
                return page
            last = page.timers[-1]
            return replace(page, stopped_at=(getattr(last, query.sort), last.id))

        return read_some

    def _learn(self, page: Page, heaviest: int) -> None:
        weight = sum(timer.weight for timer in page.timers)
        if weight:
            fitting = heaviest * len(page.timers) // weight
            self._most = max(min(2 * self._most, fitting), 1)
