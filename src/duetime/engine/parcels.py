"""Parcels are claims that were given to a sender that posts: nobody waits for them one by one."""

import asyncio
import logging
from collections.abc import Callable

from duetime.delivery import Post
from duetime.engine.claim import Claim
from duetime.timer import Outcome, Timer

log = logging.getLogger("duetime.engine")


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
        try:
            self._post.post(parcel)
        except Exception:  # it should not; and the others of its batch must not pay for it
            log.exception("%s could not be posted", claim.timer.id)
            parcel.ended(self._lost)

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
        for parcel in given_up:
            parcel.ended(self._lost)
        return len(given_up)
