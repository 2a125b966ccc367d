"""Parcels are claims that were given to a sender that posts: nobody waits for them one by one.

They leave many at once, with a turn of the event loop between: so the next ones are claimed while
these leave, and the store and the loop both have something to do.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from duetime.delivery import Post
from duetime.engine.claim import Claim
from duetime.timer import Outcome, Timer

log = logging.getLogger("duetime.engine")

AT_ONCE = 200


class _Parcel:
    """One of them, as its sender sees it."""

    __slots__ = ("_name", "_parcels", "claim")

    def __init__(self, parcels: "Parcels", name: str, claim: Claim) -> None:
        self._parcels = parcels
        self._name = name
        self.claim = claim

    @property
    def timer(self) -> Timer:
        return self.claim.timer

    def is_mine(self) -> bool:
        return self._parcels.may_be_sent(self._name, self.claim)

    def ended(self, outcome: Outcome) -> None:
        if self._parcels.take_off(self):
            self._parcels.on_end(self._name, self.claim, outcome)


class Parcels:
    """Those that are under way.

    ``lost`` is what came of those that nobody has heard of in the end.
    """

    def __init__(
        self,
        post: Post,
        *,
        may_be_sent: Callable[[str, Claim], bool],
        on_end: Callable[[str, Claim, Outcome], None],
        lost: Outcome,
    ) -> None:
        self._post = post
        self.may_be_sent = may_be_sent
        self.on_end = on_end
        self._lost = lost
        self._under_way: set[_Parcel] = set()
        self._leaving: deque[_Parcel] = deque()  # of these, those that are still to be posted
        self._all_ended: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._under_way)

    def takes(self, timer: Timer) -> bool:
        """Tell whether a timer is posted."""
        return self._post.posts(timer.spec.callback)

    def send(self, name: str, claim: Claim) -> None:
        """Give a claim away."""
        parcel = _Parcel(self, name, claim)
        self._under_way.add(parcel)
        self._leaving.append(parcel)
        if len(self._leaving) == 1:
            asyncio.get_running_loop().call_soon(self._post_some)

    def _post_some(self) -> None:
        for _ in range(min(len(self._leaving), AT_ONCE)):
            parcel = self._leaving[0]
            try:
                self._post.post(parcel)
            except Exception:  # it should not; and the others must not pay for it
                log.exception("%s could not be posted", parcel.timer.id)
                parcel.ended(self._lost)
            self._leaving.popleft()
        if self._leaving:
            asyncio.get_running_loop().call_soon(self._post_some)

    def take_off(self, parcel: _Parcel) -> bool:
        """Take note that one has ended; tells whether that is news."""
        if parcel not in self._under_way:
            return False
        self._under_way.remove(parcel)
        if self._all_ended is not None and not self._under_way:
            self._all_ended.set()
        return True

    async def all_ended(self) -> None:
        """Wait for those that are under way."""
        if self._under_way:
            self._all_ended = asyncio.Event()
            await self._all_ended.wait()

    def give_up(self) -> int:
        """Wait for none of them any more; how many there were."""
        given_up = list(self._under_way)
        self._leaving.clear()
        for parcel in given_up:
            parcel.ended(self._lost)
        return len(given_up)
