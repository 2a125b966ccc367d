"""How values are written into a statement: the driver sends text, so each is escaped here.

A session takes every text as bytes and knows no character sets, so only three characters need an
escape, and none can hide in another.
"""

from base64 import b64encode
from collections.abc import Collection, Iterable

from duetime import ids
from duetime.stores.codec import shard_set

_MANY = 1_000_000  # escapes in a text: before that, they do not matter


def text(value: str) -> str:
    """A text."""
    if "\\" in value:
        value = value.replace("\\", "\\\\")
    if "'" in value:
        value = value.replace("'", "\\'")
    if "\0" in value:
        value = value.replace("\0", "\\0")
    return f"'{value}'"


def content(value: str) -> str:
    """A text that may be large: in base64 where escapes would make more of it, a third at most."""
    escaped = text(value)
    escapes = len(escaped) - len(value)
    if escapes < _MANY or 3 * escapes < len(encoded := value.encode()):
        return escaped
    return f"FROM_BASE64('{b64encode(encoded).decode()}')"


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


def in_shards(shards: Collection[int], column: str = "shard") -> str:
    """The condition on the shard: a look at one bit, however many shards are asked for."""
    bits = shard_set(shards)
    if bits is None:
        return ""
    return f" AND ORD(SUBSTR({data(bits)}, ({column} >> 3) + 1, 1)) & (1 << ({column} & 7))"
