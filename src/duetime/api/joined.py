"""Joined writes: the head of an answer leaves together with how its body begins.

The server writes them one after the other, and each write is a call of the system, which costs more
than most of what is done for a request. A head that nothing follows leaves with this turn of the
event loop.
"""

import asyncio
from typing import Any

_HEAD = b"HTTP/1."  # how one begins; a body that begins so may wait as well
_LARGE = 64 * 1024  # bytes of a body that is not worth a copy


class JoinedWrites:
    """A transport whose heads wait for their bodies. All else is as it is."""

    __slots__ = ("_held", "_loop", "_transport")

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes) -> None:
        """Write this, or keep it for a moment."""
        held, self._held = self._held, b""
        if held and len(data) < _LARGE:
            self._transport.write(held + data)
        elif held:
            self._transport.write(held)
            self._transport.write(data)
        elif data.startswith(_HEAD):
            self._held = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Close it when all is written."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():
            self._transport.write(held)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
