"""Errands are claims that were given to a sender which needs no task to wait for the answer.

What ends in one turn of the event loop is told together, in the order in which it ended, so that
what is the same for all of them is looked at once.
"""

import asyncio
import logging
from collections.abc import Callable

from duetime.delivery import Courier
from duetime.engine.claim import Claim
from duetime.timer import Outcome

log = logging.getLogger("duetime.engine")


class _Errand:
    """One of them, as its sender sees it."""

    __slots__ = ("_claim", "_errands", "_name", "timer")

    def __init__(self, errands: "Errands", name: str, claim: Claim) -> None:
        self._errands = errands
        self._name = name
        self._claim = claim
        self.timer = claim.timer

    def is_mine(self) -> bool:
        return self._errands.may_be_sent(self._name, self._claim)

    def ended(self, outcome: Outcome) -> None:
        self._errands.end(self, self._name, self._claim, outcome)


class Errands:
    """Those that are under way.

    ``on_end`` is told of those to one receiver that have ended, with their outcomes. ``lost`` is
    what came of those that nobody has heard of in the end.
    """

    def __init__(
        self,
        courier: Courier,
        *,
        may_be_sent: Callable[[str, Claim], bool],
        on_end: Callable[[str, list[Claim]], None],
        lost: Outcome,
    ) -> None:
        self._courier = courier
        self.may_be_sent = may_be_sent
        self._on_end = on_end
        self._lost = lost
        self._under_way: dict[_Errand, None] = {}
        self._ended: dict[str, list[Claim]] = {}  # to be told of
        self._all_ended: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._under_way) + sum(map(len, self._ended.values()))

    def begin(self, name: str, claim: Claim) -> bool:
        """Give a claim away; False if its sender has to wait for something first."""
        errand = _Errand(self, name, claim)
        self._under_way[errand] = None
        try:
            if self._courier.begin(errand):
                return True
        except Exception:  # it should not; and others must not pay for it
            log.exception("a callback could not be sent to %s", name)
            errand.ended(self._lost)
            return True
        del self._under_way[errand]
        return False

    def end(self, errand: _Errand, name: str, claim: Claim, outcome: Outcome) -> None:
        """Take note of what came of one."""
        if errand not in self._under_way:
            return  # it was given up
        del self._under_way[errand]
        claim.outcome = outcome
        ended = self._ended.get(name)
        if ended is None:
            self._ended[name] = [claim]
            asyncio.get_running_loop().call_soon(self._tell, name)
        else:
            ended.append(claim)

    def _tell(self, name: str) -> None:
        try:
            self._on_end(name, self._ended.pop(name))
        finally:
            if self._all_ended is not None and not len(self):
                self._all_ended.set()

    async def all_ended(self) -> None:
        """Wait for those that are under way."""
        if len(self):
            self._all_ended = asyncio.Event()
            await self._all_ended.wait()

    def give_up(self) -> int:
        """Wait for none of them any more; how many there were."""
        given_up = list(self._under_way)
        for errand in given_up:
            errand.ended(self._lost)
        return len(given_up)
