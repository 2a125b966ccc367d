"""Pages: the timers of an action are read some at a time, and fewer where they are heavy."""

from msgspec.structs import replace

from duetime.appetite import Appetite
from duetime.searching import Read
from duetime.stores import Page, Query

FIRST = 16  # timers in the first page


class Pages:
    """How many timers of one action are read at once, by what those were like that came before."""

    def __init__(self, heaviest: int) -> None:
        self._appetite = Appetite(FIRST, heaviest)

    def by_weight(self, read: Read) -> Read:
        """Read as asked, but not too much at once; then the page says where it has ended."""

        async def read_some(query: Query) -> Page:
            limit = min(query.limit, self._appetite.most)
            page = await read(replace(query, limit=limit))
            self._appetite.learn(page.timers)
            if limit == query.limit or len(page.timers) < limit:
                return page
            last = page.timers[-1]
            return replace(page, stopped_at=(getattr(last, query.sort), last.id))

        return read_some
