"""Routing: each callback is sent by the sender of its kind."""

from collections.abc import Callable

from duetime.delivery import Courier, Errand, Mail, PostingSender, Sender
from duetime.timer import Callback, NatsCallback, Outcome, Timer


class RoutingSender:
    """Two senders that are one; what goes over NATS is posted."""

    def __init__(self, http: Sender, nats: PostingSender) -> None:
        self._http = http
        self._nats = nats
        self._courier = http if isinstance(http, Courier) else None

    def problem(self, callback: Callback) -> str | None:
        return self._of(callback).problem(callback)

    def target(self, callback: Callback) -> str:
        return self._of(callback).target(callback)

    async def send(self, timer: Timer, is_mine: Callable[[], bool]) -> Outcome:
        return await self._of(timer.spec.callback).send(timer, is_mine)

    def begin(self, errand: Errand) -> bool:
        if self._courier is None or isinstance(errand.timer.spec.callback, NatsCallback):
            return False
        return self._courier.begin(errand)

    def posts(self, callback: Callback) -> bool:
        return isinstance(callback, NatsCallback)

    def post(self, mail: Mail) -> None:
        self._nats.post(mail)

    async def close(self) -> None:
        await self._nats.close()
        await self._http.close()

    def _of(self, callback: Callback) -> Sender:
        return self._nats if isinstance(callback, NatsCallback) else self._http
