"""Arrays as PostgreSQL reads them: each column of a batch is one.

The driver asks of every element whether it is an array in its turn. That takes longer than all else
that it does for a batch, and no array of ours has another one in it.
"""

import struct
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any, NamedTuple

_HEAD = struct.Struct(
    ">iiiii"
)  # dimensions, whether it has NULLs, type, length, from where it counts
_EMPTY = struct.Struct(">iii")
_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)


class _Kind(NamedTuple):
    """A type of elements: the numbers that it and its arrays have, and how many are written."""

    array: int
    element: int
    name: str
    write: Callable[[Sequence[Any]], bytes]
    read: Callable[[bytes], Any]


def _integers(code: str) -> Callable[[Sequence[int]], bytes]:
    length = struct.calcsize(f">{code}")
    pack = struct.Struct(f">i{code}").pack
    return lambda values: b"".join(map(pack, repeat(length), values))


def _texts(values: Sequence[str]) -> bytes:
    encoded = [value.encode() for value in values]
    lengths = map(_LENGTH.pack, map(len, encoded))
    return b"".join(chain.from_iterable(zip(lengths, encoded, strict=True)))


def _uuids(values: Sequence[str]) -> bytes:
    whole = bytes.fromhex("".join(values).replace("-", ""))
    if len(whole) != 16 * len(values):
        raise ValueError("not all of these are UUIDs")
    each = [whole[at : at + 16] for at in range(0, len(whole), 16)]
    return b"".join(chain.from_iterable(zip(repeat(_LENGTH.pack(16)), each)))


def _integer(value: bytes) -> int:
    return int.from_bytes(value, signed=True)


_KINDS = (
    _Kind(1005, 21, "_int2", _integers("h"), _integer),
    _Kind(1007, 23, "_int4", _integers("i"), _integer),
    _Kind(1016, 20, "_int8", _integers("q"), _integer),
    _Kind(1009, 25, "_text", _texts, bytes.decode),
    _Kind(2951, 2950, "_uuid", _uuids, bytes.hex),
)


def write_ourselves(connection: Any) -> None:
    """Let a session write the arrays of our statements like this.

    The driver has a way to do that, which it keeps to types that are no arrays.
    """
    settings = connection._protocol.get_settings()  # noqa: SLF001 - see above
    for kind in _KINDS:
        settings.add_python_codec(
            kind.array,
            kind.name,
            "pg_catalog",
            [],
            "scalar",
            partial(written, kind),
            partial(read, kind),
            "binary",
        )


def written(kind: _Kind, values: Sequence[Any]) -> bytes:
    """An array of one dimension."""
    if not values:
        return _EMPTY.pack(0, 0, kind.element)
    if None not in values:
        return _HEAD.pack(1, 0, kind.element, len(values), 1) + kind.write(values)
    elements = [_NULL if value is None else kind.write((value,)) for value in values]
    return _HEAD.pack(1, 1, kind.element, len(values), 1) + b"".join(elements)


def read(kind: _Kind, data: bytes) -> list[Any]:
    """What is in an array of one dimension."""
    values: list[Any] = []
    at = _HEAD.size
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        values.append(None if length < 0 else kind.read(data[at : at + length]))
        at += max(length, 0)
    return values
