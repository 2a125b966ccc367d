"""An excerpt: how the body of an answer began, and as text that every store takes."""

import codecs
import re

# PostgreSQL takes no U+0000, and other controls would take over a terminal that shows them. They
# become a byte that no UTF-8 has, which reading replaces anyway: to look at each character of a
# long text costs several times as much.
_TAB, _NEWLINE, _RETURN, _DELETE, _NO_UTF_8 = 0x09, 0x0A, 0x0D, 0x7F, 0xFF
_CONTROLS = {*range(0x20), _DELETE} - {_TAB, _NEWLINE, _RETURN}
_HARMLESS = bytes(
    _NO_UTF_8 if byte in _CONTROLS else _NEWLINE if byte == _RETURN else byte for byte in range(256)
)
# Those that are two bytes long in UTF-8, of which this is the first.
_LATER_CONTROLS, _THEIR_FIRST = re.compile("[\x80-\x9f]"), b"\xc2"


class Excerpt:
    """The first ``most`` bytes of what is added; the rest is dropped as it comes."""

    __slots__ = ("_kept", "_most", "is_whole")

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: bytes | bytearray = b""
        self.is_whole = True  # nothing was dropped

    def add(self, piece: bytes) -> None:
        room = self._most - len(self._kept)
        if len(piece) > room:
            self.is_whole = False
            piece = piece[:room]
        if not self._kept:
            self._kept = piece  # most bodies come in one
        else:
            if isinstance(self._kept, bytes):
                self._kept = bytearray(self._kept)
            self._kept += piece

    @property
    def content(self) -> bytes:
        """What was kept, as it came."""
        return bytes(self._kept)

    def text(self, most: int) -> str:
        """So many bytes of what was kept, as ``harmless`` has it."""
        return harmless(self._kept, most)


def harmless(content: bytes | bytearray, most: int, *, is_line: bool = False) -> str:
    """The first ``most`` bytes, read as UTF-8; what is none, and controls, are replaced.

    Half a character at the end is left out where the limit may have cut it. Lines end with a
    newline, however they ended before; where it is to be one line, that is a space.
    """
    is_whole = len(content) < most
    if len(content) > most:
        content = content[:most]
    if content.isascii():
        text = content.decode("ascii")
        if text.isprintable():  # which most are, and this is quick to tell
            return text
    content = content.replace(b"\r\n", b"\n").translate(_HARMLESS)
    text, _ = codecs.utf_8_decode(content, "replace", is_whole)
    if _THEIR_FIRST in content:
        text = _LATER_CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
    return text.replace("\n", " ") if is_line else text
