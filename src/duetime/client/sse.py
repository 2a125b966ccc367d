"""Server-Sent Events: what arrives in pieces, event by event."""

from typing import NamedTuple

SSE_TYPE = "text/event-stream"


class Said(NamedTuple):
    """One event; without data it only says how far the stream is."""

    type: str
    data: str
    id: str | None


class Sse:
    """Puts pieces together; what is not yet whole waits for the next piece."""

    def __init__(self) -> None:
        self._rest = b""
        self._type = ""
        self._id: str | None = None
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[Said]:
        """The events that are whole with this piece."""
        *lines, self._rest = (self._rest + piece).replace(b"\r\n", b"\n").split(b"\n")
        said = []
        for line in lines:
            if line:
                self._take(line.decode(errors="replace"))
            elif (each := self._whole()) is not None:
                said.append(each)
        return said

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._type = value
        elif name == "id":
            self._id = value

    def _whole(self) -> Said | None:
        said = Said(self._type or "message", "\n".join(self._data), self._id)
        self._type, self._id, self._data = "", None, []
        return said if said.data or said.id is not None else None
