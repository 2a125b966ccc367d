"""VALUES lists: the rows of a batch as the parameters of one statement.

A list is filled up with rows of NULLs to the next power of two, so that a handful of prepared
statements serves batches of every size.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

# Rows in a statement, and in an answer: SQLite takes up to 32,766 variables.
LONGEST = 512


def fill_up(rows: Sequence[tuple[Any, ...]]) -> tuple[int, list[Any]]:
    """The length of the list that takes the rows, and its parameters."""
    length = 1 << (len(rows) - 1).bit_length()
    values = list(chain.from_iterable(rows))
    values.extend([None] * (length * len(rows[0]) - len(values)))
    return length, values


def values_list(length: int, width: int) -> str:
    """The list itself; SQLite calls its columns column1, column2 and so on."""
    row = f"({', '.join('?' * width)})"
    return f"VALUES {', '.join([row] * length)}"
