"""Headers of messages, as blocks of bytes: written for what leaves, and read of what comes in."""

import re
from collections.abc import Mapping

_VERSION = "NATS/1.0"
_STATUS = re.compile(r"[0-9]{3}")


def written(headers: Mapping[str, str]) -> bytes:
    """The block of these headers; none at all if there are none.

    ValueError if one of them holds a line's end: it could be read as another header.
    """
    if not headers:
        return b""
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    text = "".join((_VERSION, "\r\n", *lines, "\r\n"))
    if text.count("\n") != len(lines) + 2 or text.count("\r") != len(lines) + 2:
        raise ValueError("a header has more than one line")
    return text.encode()


def read(block: bytes) -> tuple[dict[str, str], int | None]:
    """The headers of a block, the first of each name, and the status, if a server sent it.

    Whoever may publish writes such blocks, so nothing is expected of them: of one that is none,
    nothing is read.
    """
    first, *lines = block.decode("utf-8", "replace").split("\r\n")
    if not first.startswith(_VERSION):
        return {}, None
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers.setdefault(name, value.strip())
    said = first[len(_VERSION) :].strip()
    if not said:
        return headers, None
    code, _, description = said.partition(" ")
    if description:
        headers.setdefault("Description", description)
    return headers, int(code) if _STATUS.fullmatch(code) else None
