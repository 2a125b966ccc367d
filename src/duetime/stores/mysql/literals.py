"""How values are written into a statement: the driver sends text, so each is escaped here.

A session takes every text as bytes and knows no character sets, so only three characters need an
escape, and none can hide in another.
"""

from collections.abc import Collection, Iterable

from duetime import ids
from duetime.stores.codec import shard_set


def text(value: str) -> str:
    """A text."""
    if "\\" in value:
        value = value.replace("\\", "\\\\")
    if "'" in value:
        value = value.replace("'", "\\'")
    if "\0" in value:
        value = value.replace("\0", "\\0")
    return f"'{value}'"


def text_or_null(value: str | None) -> str:
    """A text, or none."""
    return "NULL" if value is None else text(value)


def number_or_null(value: int | None) -> str:
    """A number, or none."""
    return "NULL" if value is None else str(value)


def data(value: bytes) -> str:
    """Bytes."""
    return f"x'{value.hex()}'"


def uuid(id_: str) -> str:
    """An id, which must be a UUID: its sixteen bytes."""
    return f"x'{id_.replace('-', '')}'"


def uuids(texts: Iterable[str]) -> list[str]:
    """Those of the texts that are ids at all, once each and in order: the others are nobody's."""
    return sorted({each.lower() for each in texts if ids.is_uuid(each)})


def listed(values: Iterable[str]) -> str:
    """Literals in parentheses."""
    return f"({', '.join(values)})"


def in_shards(shards: Collection[int]) -> str:
    """The condition on the shard: a look at one bit, however many shards are asked for."""
    bits = shard_set(shards)
    if bits is None:
        return ""
    return f" AND ORD(SUBSTR({data(bits)}, (shard >> 3) + 1, 1)) & (1 << (shard & 7))"
