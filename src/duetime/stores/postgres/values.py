"""How values are written for PostgreSQL, where that needs a thought.

Its texts cannot hold U+0000, which JSON can. So that character and the next one, U+0001, are
written as two, in a way that keeps the order of texts; all others stand for themselves.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from duetime import ids


def escaped(text: str) -> str:
    """A text as PostgreSQL can hold it."""
    if "\0" not in text and "\x01" not in text:
        return text
    return text.replace("\x01", "\x01\x02").replace("\0", "\x01\x01")


def escaped_or_none(text: str | None) -> str | None:
    """The same, for a column that may be empty."""
    return None if text is None else escaped(text)


def unescaped(text: str) -> str:
    """A text as it was written."""
    if "\x01" not in text:
        return text
    return text.replace("\x01\x01", "\0").replace("\x01\x02", "\x01")


def columns(rows: Sequence[tuple[Any, ...]], width: int = 0) -> list[list[Any]]:
    """Rows as columns: one array for each, as ``unnest`` takes them."""
    return (
        [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
    )


def uuids(texts: Iterable[str]) -> list[str]:
    """Those of the texts that are ids at all, once each: the others are nobody's."""
    return [text for text in dict.fromkeys(texts) if ids.is_uuid(text)]
