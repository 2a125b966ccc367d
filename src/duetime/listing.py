"""Listing: a page of timers in short, that takes no more memory if they carry much.

A list shows nothing of what timers carry, but a store gives them whole. So they are read some at a
time, and of each only what is shown is kept before the next are read.
"""

from msgspec import UNSET
from msgspec.structs import replace

from duetime.appetite import Appetite
from duetime.searching import Filter, Part, Read, search
from duetime.stores import Page
from duetime.tenancy.caller import Caller
from duetime.timer import Outcome, Timer

HEAVIEST = 8 << 20  # bytes of timers that are read at once, more or less
FIRST = 50  # timers that are read at first, which is a page as most ask for it
_GROWTH = 4  # so that the largest page, of light ones, is read at the second go


class Lists:
    """Reads lists, and remembers whose timers are heavy."""

    def __init__(self, read: Read, *, counts: bool) -> None:
        self._read = read
        self._counts = counts
        self._firsts: dict[str, int] = {}  # by tenant, where it is fewer than usual

    async def page(self, caller: Caller, wanted: Filter, part: Part) -> Page:
        """A page of what somebody looks for, of the timers that there are for them, in short."""
        tenant = caller.tenant
        appetite = Appetite(self._firsts.get(tenant, FIRST), HEAVIEST, _GROWTH)
        try:
            return await search(
                self._read,
                tenant,
                wanted.within(caller.groups),
                part,
                counts=self._counts,
                appetite=appetite,
                keep=in_short,
            )
        finally:
            self._firsts[tenant] = appetite.most
            if appetite.most >= FIRST:
                del self._firsts[tenant]


def in_short(timer: Timer) -> Timer:
    """A timer without what it carries, and of what came of it only which kind that was."""
    callback = replace(timer.spec.callback, headers={}, payload=UNSET)
    outcome = timer.progress.outcome
    return replace(
        timer,
        spec=replace(timer.spec, callback=callback, metadata=UNSET, on_failure=None),
        progress=replace(
            timer.progress, outcome=None if outcome is None else Outcome(kind=outcome.kind)
        ),
    )
