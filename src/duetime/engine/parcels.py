"""Parcels are claims that were given to a sender that posts: nobody waits for them one by one.

They leave many at once, with a turn of the event loop between: so the next ones are claimed while
these leave, and the store and the loop both have something to do. What is the same for all that
leave together, or end together, is looked at once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from duetime.delivery import Post
from duetime.engine.claim import Claim
from duetime.timer import Kind, Outcome, Timer

log = logging.getLogger("duetime.engine")

AT_ONCE = 200

_UNSENT = Outcome(kind=Kind.UNSENT)


class _Mail:
    """Those that leave together for one receiver, as their sender sees them."""

    __slots__ = ("_claims", "_name", "_parcels", "timers")

    def __init__(self, parcels: "Parcels", name: str, claims: Sequence[Claim]) -> None:
        self._parcels = parcels
        self._name = name
        self._claims = {claim.timer.id: claim for claim in claims}  # those that have not ended
        self.timers = [claim.timer for claim in claims]

    def is_mine(self, timer: Timer) -> bool:
        claim = self._claims.get(timer.id)
        return claim is not None and bool(self._parcels.sendable(self._name, [claim]))

    def ended(self, timers: Sequence[Timer], outcome: Outcome) -> None:
        claims = self._claims
        if ended := [claims.pop(timer.id) for timer in timers if timer.id in claims]:
            if not claims:
                self._parcels.take_off(self)
            self._parcels.end(self._name, ended, outcome)

    def __len__(self) -> int:
        return len(self._claims)


class Parcels:
    """Those that are under way.

    ``lost`` is what came of those that nobody has heard of in the end.
    """

    def __init__(
        self,
        post: Post,
        *,
        sendable: Callable[[str, Sequence[Claim]], list[Claim]],
        on_end: Callable[[str, Sequence[Claim], Outcome], None],
        lost: Outcome,
    ) -> None:
        self._post = post
        self.sendable = sendable  # which of these may be sent now
        self._on_end = on_end
        self._lost = lost
        self._leaving: deque[tuple[str, Claim]] = deque()  # those that are still to be posted
        self._posted: set[_Mail] = set()  # of which some have not ended
        self._all_ended: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._leaving) + sum(map(len, self._posted))

    def takes(self, timer: Timer) -> bool:
        """Tell whether a timer is posted."""
        return self._post.posts(timer.spec.callback)

    def send(self, name: str, claim: Claim) -> None:
        """Give a claim away."""
        self._leaving.append((name, claim))
        if len(self._leaving) == 1:
            asyncio.get_running_loop().call_soon(self._post_some)

    def _post_some(self) -> None:
        taken: dict[str, list[Claim]] = {}
        for _ in range(min(len(self._leaving), AT_ONCE)):
            name, claim = self._leaving.popleft()
            taken.setdefault(name, []).append(claim)
        if self._leaving:
            asyncio.get_running_loop().call_soon(self._post_some)
        for name, claims in taken.items():
            self._post_mail(name, claims)

    def _post_mail(self, name: str, claims: list[Claim]) -> None:
        mine = self.sendable(name, claims)
        if len(mine) < len(claims):
            ids = {claim.timer.id for claim in mine}
            self.end(name, [claim for claim in claims if claim.timer.id not in ids], _UNSENT)
        if not mine:
            return
        mail = _Mail(self, name, mine)
        self._posted.add(mail)
        try:
            self._post.post(mail)
        except Exception:  # it should not; and those for others must not pay for it
            log.exception("%d callbacks could not be posted to %s", len(mail), name)
            mail.ended(mail.timers, self._lost)

    def take_off(self, mail: _Mail) -> None:
        """Take note that all of a mail have ended."""
        self._posted.discard(mail)

    def end(self, name: str, claims: Sequence[Claim], outcome: Outcome) -> None:
        """Take note of what came of some."""
        self._on_end(name, claims, outcome)
        if self._all_ended is not None and not len(self):
            self._all_ended.set()

    async def all_ended(self) -> None:
        """Wait for those that are under way."""
        if len(self):
            self._all_ended = asyncio.Event()
            await self._all_ended.wait()

    def give_up(self) -> int:
        """Wait for none of them any more; how many there were."""
        given_up = len(self)
        leaving = list(self._leaving)
        self._leaving.clear()
        for name, claim in leaving:
            self.end(name, [claim], _UNSENT)
        for mail in list(self._posted):
            mail.ended(mail.timers, self._lost)
        return given_up
