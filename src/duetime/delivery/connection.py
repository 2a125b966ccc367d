"""A connection carries one HTTP/1.1 exchange at a time: a request out, and its answer back.

It lives in the event loop's own thread. A client library with a thread of its own costs several
times as much, because the two threads keep handing Python's lock to each other; and it could not
take a request back, which closing the connection does.
"""

import asyncio
import math
import select
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from msgspec import Raw

from duetime.delivery.answers import Answers, GivenUp, NothingCame, Response
from duetime.delivery.excerpt import Excerpt

_ENDED = getattr(select, "POLLHUP", 0) | getattr(select, "POLLRDHUP", 0)
_HAS_POLL = hasattr(select, "poll")  # not on Windows
_LARGE = 64 * 1024  # a request that may not leave at once

# Is told what came of a request: an answer, or NoAnswer or TimeoutError, or why it was not written.
OnEnd: TypeAlias = Callable[[Response | Exception], None]


class Connection(asyncio.Protocol):
    """One connection to a receiver.

    ``read_at_most`` bounds how many bytes of an answer are read: of a longer one the rest is not
    waited for, its status counts, and the connection is closed.
    """

    __slots__ = (
        "_alarm",
        "_alarm_at",
        "_answers",
        "_deadline",
        "_is_large",
        "_is_tls",
        "_loop",
        "_on_end",
        "_on_lost",
        "_poll",
        "_read_at_most",
        "_transport",
        "exchanges",
        "is_reusable",
        "rested_at",
        "route",
    )

    def __init__(
        self,
        route: tuple[str, str, str],
        *,
        read_at_most: int,
        on_lost: Callable[["Connection"], None],
        is_tls: bool = False,
    ) -> None:
        # Where it leads, the origin and the address, and by which client certificate, if any.
        self.route = route
        self.rested_at = 0.0  # on the monotonic clock, since when nobody uses it
        self.is_reusable = False
        self.exchanges = 0  # that ended well
        self._is_tls = is_tls
        self._read_at_most = read_at_most
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._answers = Answers()
        self._on_end: OnEnd | None = None  # of the exchange that is under way, if one is
        self._is_large = False  # its request
        self._deadline = 0.0  # its own, on the event loop's clock
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf
        self._poll: Any = select.poll() if _HAS_POLL else None

    async def exchange(
        self,
        head: bytes,
        body: bytes | Raw,
        seconds: float,
        *,
        is_head: bool = False,
        keep: int = 0,
    ) -> Response:
        """Send a request and wait for its answer, as ``begin`` does; raises what came instead."""
        ended: asyncio.Future[Response | Exception] = self._loop.create_future()
        try:
            self.begin(head, body, seconds, partial(_settle, ended), is_head=is_head, keep=keep)
            answer = await ended
        finally:
            self._on_end = None  # whoever waited was told to stop
            del ended
        if isinstance(answer, Response):
            return answer
        try:
            raise answer
        finally:
            # A failure holds this frame and thereby the request: nothing here may hold the failure.
            del answer

    def begin(
        self,
        head: bytes,
        body: bytes | Raw,
        seconds: float,
        on_end: OnEnd,
        *,
        is_head: bool = False,
        keep: int = 0,
    ) -> None:
        """Send a request, and tell what came of it, which may be before this returns.

        ``keep`` says how many bytes of the answer's body are wanted, of those that are read.
        """
        self.is_reusable = False
        if self._transport.is_closing():
            on_end(NothingCame("the connection was closed"))
            return
        excerpt = Excerpt(min(keep, self._read_at_most)) if keep > 0 else None
        self._answers.expect(is_head=is_head, excerpt=excerpt)
        self._on_end = on_end
        self._wait_at_most(seconds)
        try:
            self._is_large = self._write(head, memoryview(body))
        except Exception as error:  # noqa: BLE001 - whoever waits is told, and nobody else is
            self._answers.fail(error)
            self._end()

    def _end(self) -> None:
        """Tell what came of the exchange, if it is known by now."""
        answer, on_end = self._answers.answer, self._on_end
        if answer is None or on_end is None:
            return
        self._on_end = None
        self._answers.forget()
        if isinstance(answer, Response):
            self.is_reusable = self._answers.can_go_on and not self._transport.is_closing()
            if self._is_large and (self._is_tls or self._transport.get_write_buffer_size()):
                self.is_reusable = False  # the answer came before the request was out
            self.exchanges += 1
        on_end(answer)

    def _wait_at_most(self, seconds: float) -> None:
        """Set the alarm. It is left as it is between exchanges: setting it costs more than that."""
        self._deadline = self._loop.time() + seconds
        if self._deadline < self._alarm_at:
            self._set_alarm(seconds)

    def _set_alarm(self, seconds: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_later(seconds, self._on_alarm)
        self._alarm_at = self._deadline

    def _on_alarm(self) -> None:
        self._alarm, self._alarm_at = None, math.inf
        if self._on_end is None:
            return
        left = self._deadline - self._loop.time()
        if left > 0:  # it was set for an exchange before this one
            self._set_alarm(left)
        else:
            self._answers.run_out()
            self._end()

    def _write(self, head: bytes, body: memoryview) -> bool:
        """Write a request, at once and without a copy if it is large; tell whether it is."""
        if body.nbytes < _LARGE:
            self._transport.write(head + body)
            return False
        self._transport.write(head)
        self._transport.write(body)
        return True

    def is_quiet(self) -> bool:
        """Tell whether nothing has come that the event loop has not told yet, such as the end.

        To ask costs little, but lets go of Python's lock.
        """
        return not (_HAS_POLL and self._poll.poll(0))

    def close(self) -> None:
        """Close it; an exchange that is under way ends without an answer."""
        self.is_reusable = False
        self._transport.abort()
        if self._on_end is not None:
            self._answers.fail(GivenUp())
            self._end()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.is_reusable = True
        if _HAS_POLL:  # TLS has its own talk, so there only the end counts
            events = _ENDED if self._is_tls else _ENDED | select.POLLIN
            self._poll.register(transport.get_extra_info("socket").fileno(), events)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_reusable = False
        if self._on_end is not None:
            self._answers.end(exc)
            self._end()
        if self._alarm is not None:
            self._alarm.cancel()
        self._answers.release()
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        if self._on_end is not None:
            # Not in the middle of it: what else came with the answer is looked at as well.
            self._answers.feed(data, self._read_at_most)
            self._end()
        else:
            self.close()  # nobody asked

    def eof_received(self) -> None:
        """The other side says no more, which may be long before the connection is lost."""
        self.is_reusable = False
        if self._on_end is not None:
            self._answers.end(None)
            self._end()


def _settle(ended: asyncio.Future[Response | Exception], answer: Response | Exception) -> None:
    if not ended.done():
        ended.set_result(answer)
