"""A worker is a node in a process of its own, beside others on one port, below a supervisor.

Its link to the supervisor is one socket pair, the channel. The settings come in through it, the
worker says there that it is ready, and its end means: stop. It ends when the supervisor says so and
when the supervisor dies, in whatever way, so that no worker is ever left alone.
"""

import asyncio
import logging
import signal
import socket

import msgspec

from duetime.config import Settings

log = logging.getLogger("duetime")

READY = b"ready\n"

# The exit code of a worker that found no database to start with. Only its supervisor sees it.
STORE_AWAY = 75

_ORDERS_END = b"\n"  # JSON has none of its own
_CHUNK = 65_536


class Worker:
    """What a node must know of its supervisor."""

    def __init__(self, number: int, listener: socket.socket, channel: socket.socket) -> None:
        self.number = number
        self.listener = listener
        self._channel = channel

    def settings(self) -> Settings | None:
        """Wait for the settings; None if the supervisor is gone before it has sent them."""
        received = b""
        while not received.endswith(_ORDERS_END):
            chunk = self._channel.recv(_CHUNK)
            if not chunk:
                return None
            received += chunk
        self._channel.setblocking(False)
        return msgspec.json.decode(received, type=Settings)

    def tell_ready(self) -> None:
        """Tell the supervisor that requests are taken from now on."""
        try:
            self._channel.send(READY)
        except OSError:  # it is gone: the end of the channel says so too
            log.debug("the supervisor is gone")

    def told_to_stop(self) -> asyncio.Event:
        """An event that the end of the channel sets, and a signal too.

        Signals never end a worker at once, however many come: systemd, for one, sends SIGTERM to
        every process of a service while the supervisor stops them as well.
        """
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()

        def on_channel() -> None:
            try:
                if self._channel.recv(_CHUNK):
                    return
            except BlockingIOError:
                return
            except OSError:  # reset, which is an end too
                pass
            loop.remove_reader(self._channel)
            stop.set()

        loop.add_reader(self._channel, on_channel)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        return stop


def orders(settings: Settings) -> bytes:
    """The settings as they are sent to a worker: not by arguments, which every user can read."""
    return msgspec.json.encode(settings) + _ORDERS_END
